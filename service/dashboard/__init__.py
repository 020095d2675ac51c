"""The pages: server-rendered shells and small scripts; everything they show comes from `/v1`."""

from tapestry.service.dashboard.pages import STATIC, error_page, router

__all__ = ["STATIC", "error_page", "router"]

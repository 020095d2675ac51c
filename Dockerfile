# The service in one image: the API, a worker, or any other command of `tapestry`, by what it is told to run.
# docs/deployment.md says how to start it together with its database.

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/tapestry
WORKDIR /source
# Dependencies first, by hash: they change less often than the program, and so are rarely installed anew.
COPY requirements-service.lock ./
RUN /opt/tapestry/bin/python -m pip install --require-hashes -r requirements-service.lock
COPY pyproject.toml README.md LICENSE ./
# The links of the one import package, then the folders that they lead to.
COPY tapestry tapestry
COPY teg teg
COPY hardware hardware
COPY rewrites rewrites
COPY costmodel costmodel
COPY optimizer optimizer
COPY client client
COPY service service
COPY examples examples
RUN /opt/tapestry/bin/python -m pip install --no-deps --no-build-isolation .

FROM python:3.11.14-slim-bookworm
ENV PATH=/opt/tapestry/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TAPESTRY_HOME=/var/lib/tapestry \
    TAPESTRY_CACHE=/var/cache/tapestry
RUN groupadd --gid 10001 tapestry \
    && useradd --uid 10001 --gid tapestry --no-create-home --home-dir "$TAPESTRY_HOME" tapestry \
    && install --directory --owner tapestry --group tapestry "$TAPESTRY_HOME" "$TAPESTRY_CACHE"
COPY --from=build /opt/tapestry /opt/tapestry
USER 10001:10001
WORKDIR /var/lib/tapestry
# The database, unless it is PostgreSQL; and the compiled loops, which take most of a minute to make again.
VOLUME ["/var/lib/tapestry", "/var/cache/tapestry"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["tapestry"]
# Anybody who reaches the container reaches the API, so it starts only with a key: $TAPESTRY_API_KEY.
CMD ["serve", "--host", "0.0.0.0"]

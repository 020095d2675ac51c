"""Analysis of finished plans: verification, explanation, ablation."""

"""Cases from the projects and papers our model comes from, run against the product by one adapter per kind."""

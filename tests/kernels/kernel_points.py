"""Points at which kernels are tried."""


def points(on, rng, n=13, q=7, d=3, *, tied=True):
    """Points that the place represents; tied, some are among the others and one is 0."""
    X, Z = rng.standard_normal((n, d)), rng.standard_normal((q, d))
    if tied:
        X[:3] = Z[[2, 2, 4]]
        X[5, 1] = Z[0, 1]
        X[6] = 0.0
    return on.rounded(X), on.rounded(Z)

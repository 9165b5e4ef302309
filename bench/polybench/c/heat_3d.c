#define STEP(P, Q)                                                                             \
    for (int i = 1; i < N - 1; i++)                                                            \
        for (int j = 1; j < N - 1; j++)                                                        \
            for (int k = 1; k < N - 1; k++)                                                    \
                Q[i][j][k] = 0.125 * (P[i + 1][j][k] - 2.0 * P[i][j][k] + P[i - 1][j][k])      \
                           + 0.125 * (P[i][j + 1][k] - 2.0 * P[i][j][k] + P[i][j - 1][k])      \
                           + 0.125 * (P[i][j][k + 1] - 2.0 * P[i][j][k] + P[i][j][k - 1]) + P[i][j][k];

void kernel(double A[restrict N][N][N], double B[restrict N][N][N]) {
    for (int t = 0; t < T; t++) {
        STEP(A, B)
        STEP(B, A)
    }
}

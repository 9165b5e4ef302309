void kernel(double A[restrict N][M], double C[restrict N][N], double O[restrict N][N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) O[i][j] = 1.25 * C[i][j];
        for (int j = i + 1; j < N; j++) O[i][j] = 0;
        for (int k = 0; k < M; k++)
            for (int j = 0; j <= i; j++) O[i][j] += 1.5 * A[i][k] * A[j][k];
    }
}

void kernel(double X[restrict N][M], double Y[restrict N][M], double H[restrict N][M]) {
    for (int t = 0; t < T; t++) {
        for (int j = 0; j < M; j++) Y[0][j] = t;
        for (int i = 1; i < N; i++)
            for (int j = 0; j < M; j++) Y[i][j] = Y[i][j] - 0.5 * (H[i][j] - H[i - 1][j]);
        for (int i = 0; i < N; i++)
            for (int j = 1; j < M; j++) X[i][j] = X[i][j] - 0.5 * (H[i][j] - H[i][j - 1]);
        for (int i = 0; i < N - 1; i++)
            for (int j = 0; j < M - 1; j++)
                H[i][j] = H[i][j] - 0.7 * (X[i][j + 1] - X[i][j] + Y[i + 1][j] - Y[i][j]);
    }
}

void kernel(double A[restrict I][K], double B[restrict K][J], double C[restrict I][J], double O[restrict I][J]) {
    for (int i = 0; i < I; i++) {
        for (int j = 0; j < J; j++) O[i][j] = 1.25 * C[i][j];
        for (int k = 0; k < K; k++)
            for (int j = 0; j < J; j++) O[i][j] += 1.5 * A[i][k] * B[k][j];
    }
}

void kernel(double A[restrict R][Q][P], double C[restrict P][S], double O[restrict R][Q][S]) {
    for (int r = 0; r < R; r++)
        for (int q = 0; q < Q; q++)
            for (int s = 0; s < S; s++) {
                O[r][q][s] = 0;
                for (int p = 0; p < P; p++) O[r][q][s] += A[r][q][p] * C[p][s];
            }
}

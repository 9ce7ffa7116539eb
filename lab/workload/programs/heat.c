/* Heat on a plate, some steps of it: a small honest computation. heat SIZE STEPS */
#include <stdio.h>
#include <stdlib.h>
#ifdef WITH_FFT
#include <fftw3.h>
#endif

int main(int argc, char **argv) {
    int size = argc > 1 ? atoi(argv[1]) : 200, steps = argc > 2 ? atoi(argv[2]) : 50;
    double *now = calloc((size_t)size * size, sizeof *now), *next = calloc((size_t)size * size, sizeof *next);
    if (!now || !next) return 12;
    for (int i = 0; i < size; i++) now[i] = next[i] = 100.0;
    for (int step = 0; step < steps; step++) {
        for (int y = 1; y < size - 1; y++)
            for (int x = 1; x < size - 1; x++)
                next[y * size + x] = 0.25 * (now[(y - 1) * size + x] + now[(y + 1) * size + x]
                                           + now[y * size + x - 1] + now[y * size + x + 1]);
        double *swap = now; now = next; next = swap;
    }
    /* Asked for a point outside of the plate, it reads where nothing is. */
    long point = argc > 3 ? atol(argv[3]) : size + 1;
    printf("%f\n", now[point]);
    return 0;
}

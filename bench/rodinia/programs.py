"""Rodinia's programs: what is compiled, with which arguments it runs, and which of its files hold the result.

Arguments name input files as ``../../data/...``, which becomes the folder that `inputs` writes them to.
``lines`` selects the lines of standard output that are results, not times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """One version of a program: its folder in the checkout, its sources, options and arguments."""

    folder: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lines: str = ""


@dataclass(frozen=True)
class Program:
    """A program: its CUDA version and, where there is one that computes the same, its OpenMP version.

    ``tolerance`` is for results of the two versions, relative; None where they do not compute the same (``why``).
    """

    name: str
    cuda: Version
    openmp: Version | None = None
    tolerance: float | None = 1e-4
    why: str = ""
    #: What the program says when it has checked its own results.
    own_check: str = ""
    #: Arguments with which it computes the same on the CPU by itself.
    cpu_arguments: str = ""
    #: Whether rounding alone decides how often it launches its one kernel: then the time of one launch is compared.
    by_launch: bool = False


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _version(
    folder: str, sources: str, flags: str = "", arguments: str = "", files: str = "", lines: str = ""
) -> Version:
    return Version(folder, _words(sources), _words(flags), _words(arguments), _words(files), lines)


PROGRAMS = (
    Program(
        "b+tree",
        _version("cuda/b+tree", "main.c kernel/kernel_gpu_cuda_wrapper.cu kernel/kernel_gpu_cuda_wrapper_2.cu "
                 "util/timer/timer.c util/num/num.c util/cuda/cuda.cu", "",
                 "file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt", "output.txt"),
        _version("openmp/b+tree", "main.c kernel/kernel_cpu.c kernel/kernel_cpu_2.c util/timer/timer.c util/num/num.c",
                 "", "cores 2 file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt", "output.txt"),
    ),
    Program(
        "backprop",
        _version("cuda/backprop", "backprop.c facetrain.c imagenet.c backprop_cuda.cu", "", "65536"),
        _version("openmp/backprop", "backprop.c facetrain.c imagenet.c backprop_kernel.c", "", "65536"),
        None, "the OpenMP version writes nothing",
    ),
    Program(
        "bfs",
        _version("cuda/bfs", "bfs.cu", "", "../../data/bfs/graph.txt", "result.txt"),
        _version("openmp/bfs", "bfs.cpp", "", "2 ../../data/bfs/graph.txt", "result.txt"),
    ),
    Program(
        "cfd",
        _version("cuda/cfd", "euler3d.cu", "-Dblock_length=192", "../../data/cfd/domain", "density density_energy"),
        _version("openmp/cfd", "euler3d_cpu.cpp", "-Dblock_length=2", "../../data/cfd/domain",
                 "density density_energy"),
        2e-3,
    ),
    Program("dwt2d", _version("cuda/dwt2d", "main.cu dwt.cu components.cu dwt_cuda/fdwt53.cu dwt_cuda/fdwt97.cu "
                              "dwt_cuda/common.cu dwt_cuda/rdwt97.cu dwt_cuda/rdwt53.cu", "-I. -DOUTPUT",
                              "image.bmp -d 256x256 -f -5 -l 3"), None, None, "no OpenMP version"),
    Program("gaussian", _version("cuda/gaussian", "gaussian.cu", "", "-s 256", "", r"^[-\d. ]+$"), None, None,
            "no OpenMP version"),
    Program(
        "heartwall",
        _version("cuda/heartwall", "main.cu AVI/avilib.c AVI/avimod.c", "-DOUTPUT -IAVI",
                 "../../data/heartwall/test.avi 5",
                 "result.txt"),
        _version("openmp/heartwall", "main.c AVI/avilib.c AVI/avimod.c", "-DOUTPUT -IAVI",
                 "../../data/heartwall/test.avi 5 2", "result.txt"),
        # A barrier is missing before the cumulative sums of its kernel; where threads run in order, it shows.
        1e-2,
    ),
    Program(
        "hotspot",
        _version("cuda/hotspot", "hotspot.cu", "",
                 "512 2 64 ../../data/hotspot/temp ../../data/hotspot/power output.out",
                 "output.out"),
        _version("openmp/hotspot", "hotspot_openmp.cpp", "",
                 "512 512 64 2 ../../data/hotspot/temp ../../data/hotspot/power output.out", "output.out"),
        1e-2,
    ),
    Program(
        "hotspot3D",
        _version("cuda/hotspot3D", "3D.cu", "",
                 "512 8 20 ../../data/hotspot3D/power ../../data/hotspot3D/temp output.out",
                 "output.out"),
        _version("openmp/hotspot3D", "3D.c", "",
                 "512 8 20 ../../data/hotspot3D/power ../../data/hotspot3D/temp output.out", "output.out"),
    ),
    Program("huffman", _version("cuda/huffman", "main_test_cu.cu stats_logger.cpp vlc_kernel_sm64huff.cu scan.cu "
                                "pack_kernels.cu cpuencode.cpp", "-DTESTING", "../../data/huffman/text.in", "",
                                r"(?i)pass|fail|verif"), None, None, "no OpenMP version", "PASS! vectors are matching"),
    Program("hybridsort", _version("cuda/hybridsort", "bucketsort.cu mergesort.cu main.cu", "-DVERIFY", "r", "",
                                   r"(?i)pass|fail|verif|sorted"), None, None, "no OpenMP version", "PASSED"),
    Program(
        "kmeans",
        _version("cuda/kmeans", "cluster.c getopt.c kmeans.c kmeans_clustering.c kmeans_cuda.cu rmse.c",
                 "-Xcompiler -fopenmp", "-o -i ../../data/kmeans/points", "", r"^\d+: [-\d. ]+$"),
        _version("openmp/kmeans/kmeans_openmp", "cluster.c getopt.c kmeans.c kmeans_clustering.c", "",
                 "-n 2 -i ../../data/kmeans/points", "", r"^\d+: [-\d. ]+$"),
        None, "the OpenMP version does not print its clusters",
    ),
    Program(
        "lavaMD",
        _version("cuda/lavaMD", "main.c kernel/kernel_gpu_cuda_wrapper.cu util/num/num.c util/timer/timer.c "
                 "util/device/device.cu", "-DOUTPUT", "-boxes1d 6", "result.txt"),
        _version("openmp/lavaMD", "main.c kernel/kernel_cpu.c util/num/num.c util/timer/timer.c", "-DOUTPUT",
                 "-cores 2 -boxes1d 6", "result.txt"),
    ),
    Program(
        "leukocyte",
        _version("cuda/leukocyte/CUDA", "detect_main.c avilib.c find_ellipse.c find_ellipse_kernel.cu track_ellipse.c "
                 "track_ellipse_kernel.cu misc_math.c ../meschach_lib/meschach.a", "-DOUTPUT -I../meschach_lib",
                 "../../data/leukocyte/test.avi 3", "result.txt"),
        _version("openmp/leukocyte/OpenMP", "detect_main.c avilib.c find_ellipse.c track_ellipse.c misc_math.c "
                 "../meschach_lib/meschach.a", "-DOUTPUT -I../meschach_lib -no-pie",
                 "3 2 ../../data/leukocyte/test.avi", "result.txt"),
        1e-2,
    ),
    Program(
        "lud",
        _version("cuda/lud/cuda", "lud.cu lud_kernel.cu ../common/common.c", "-I../common", "-s 512 -v", "",
                 r"(?i)verify|dismatch|pass|fail"),
        _version("openmp/lud/omp", "lud.c lud_omp.c ../common/common.c", "-I../common", "-s 512 -n 2"),
        None, "the OpenMP version prints nothing", "(?s)Verify(?!.*dismatch)",
    ),
    # It calls a member function on a null pointer and asks `this` there: compilers of its time kept the question.
    Program("mummergpu", _version("cuda/mummergpu/src", "mummergpu_main.cpp mummergpu_gold.cpp suffix-tree.cpp "
                                  "PoolMalloc.cpp mummergpu.cu", "-I. -DUNIX -Xcompiler -fopenmp -include unistd.h "
                                  "-Xcompiler -fno-delete-null-pointer-checks",
                                  "../../data/mummergpu/reference.fna ../../data/mummergpu/queries.fna", "",
                                  r"^> |^\s*\d+\s+\d+\s+\d+$"),
            None, None, "the OpenMP version is the CPU part of the same program, and needs CUDA to link",
            cpu_arguments="-C ../../data/mummergpu/reference.fna ../../data/mummergpu/queries.fna"),
    Program(
        "myocyte",
        _version("cuda/myocyte", "main.cu", "", "50 1 0", "output.txt"),
        _version("openmp/myocyte", "main.c", "", "50 1 0 2", "output.txt"),
        None, "the OpenMP version writes nothing", by_launch=True,
    ),
    Program(
        "nn",
        _version("cuda/nn", "nn_cuda.cu", "", "../../data/nn/filelist -r 5 -lat 30 -lng 90", "", "Distance"),
        _version("openmp/nn", "nn_openmp.c", "", "../../data/nn/filelist 5 30 90", "", "Distance|-->"),
        None, "the two write their neighbours in different forms",
    ),
    Program(
        "nw",
        _version("cuda/nw", "needle.cu", "-DTRACEBACK", "1024 10", "result.txt"),
        _version("openmp/nw", "needle.cpp", "-DTRACEBACK", "1024 10 2", "result.txt"),
    ),
    Program(
        "particlefilter_float",
        _version("cuda/particlefilter", "ex_particle_CUDA_float_seq.cu", "", "-x 128 -y 128 -z 10 -np 1000", "",
                 "^[XY]E"),
        _version("openmp/particlefilter", "ex_particle_OPENMP_seq.c", "", "-x 128 -y 128 -z 10 -np 1000", "", "^[XY]E"),
        None, "random numbers are drawn in another order, and only the last place is told",
    ),
    Program(
        "particlefilter_naive",
        _version("cuda/particlefilter", "ex_particle_CUDA_naive_seq.cu", "", "-x 128 -y 128 -z 10 -np 1000", "",
                 "^[XY]E"),
        _version("openmp/particlefilter", "ex_particle_OPENMP_seq.c", "", "-x 128 -y 128 -z 10 -np 1000", "", "^[XY]E"),
        2e-2,  # random numbers are drawn in another order: two estimates of one place
    ),
    Program(
        "pathfinder",
        _version("cuda/pathfinder", "pathfinder.cu", "-DBENCH_PRINT", "20000 100 20", "", r"^[\d ]{200,}$"),
        _version("openmp/pathfinder", "pathfinder.cpp", "-DBENCH_PRINT", "20000 100", "", r"^[\d ]{200,}$"),
    ),
    Program(
        "srad_v1",
        _version("cuda/srad/srad_v1", "main.cu", "", "20 0.5 502 458", "image_out.pgm"),
        _version("openmp/srad/srad_v1", "main.c", "", "20 0.5 502 458 2", "image_out.pgm"),
        2e-2,
    ),
    Program(
        "srad_v2",
        _version("cuda/srad/srad_v2", "srad.cu", "-DOUTPUT", "512 512 0 127 0 127 0.5 10", "", r"^[-\d. ]{200,}$"),
        _version("openmp/srad/srad_v2", "srad.cpp", "-DOUTPUT", "512 512 0 127 0 127 2 0.5 10", "", r"^[-\d. ]{200,}$"),
    ),
    Program(
        "streamcluster",
        _version("cuda/streamcluster", "streamcluster_cuda_cpu.cpp streamcluster_cuda.cu streamcluster_header.cu", "",
                 "10 20 64 8192 8192 1000 none output.txt 1", "output.txt"),
        _version("openmp/streamcluster", "streamcluster_omp.cpp", "", "10 20 64 8192 8192 1000 none output.txt 2",
                 "output.txt"),
        1e-3,
    ),
)  # fmt: skip

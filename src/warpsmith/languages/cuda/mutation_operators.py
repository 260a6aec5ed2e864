"""Mutation operators, one row each: frequent mistakes in kernels."""

import re

from warpsmith.languages.cuda.mutants import Harm, MutationOperator, Where

SIDE_STREAM = (
    "[] { static cudaStream_t side = nullptr; "
    "if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking); return side; }()"
)
OTHER_FUNCTION = {"fmaxf": "fminf", "expf": "exp2f", "rsqrtf": "sqrtf", "logf": "log2f", "sqrtf": "fabsf"}
FOR = r"(for \([^;{}]*;\s*\w+)"


def _renamed_entry(place: re.Match[str]) -> str:
    """Return an entry point under another name."""
    return 'm.def("run"' if place[0].startswith("m.") else "int run("


def _other_function(place: re.Match[str]) -> str:
    """Return a call of a related function."""
    return f"{OTHER_FUNCTION[place[1]]}("


OPERATORS = (
    MutationOperator("syntax_error", "a semicolon is missing", Harm.BUILD, ((r";(?=\n)", ""),)),
    MutationOperator(
        "type_error", "a number is declared as a pointer", Harm.BUILD, ((r"\bfloat (\w+) = ", r"float* \1 = "),)
    ),
    MutationOperator(
        "undeclared_name", "a name that is not declared", Harm.BUILD, ((r"\bthreadIdx\.x\b", "thread_index"),)
    ),
    MutationOperator(
        "unknown_function",
        "a function that does not exist",
        Harm.BUILD,
        ((r"\b(expf|rsqrtf|fmaxf|sqrtf|logf|max|min)\(", r"fast_\1("),),
    ),
    MutationOperator(
        "lost_entry",
        "the function is exported under another name",
        Harm.BUILD,
        ((r'm\.def\("\w+"|\bint (?:forward|backward)\(', _renamed_entry),),
        Where.HOST,
        strings=True,
    ),
    MutationOperator("off_by_one", "a loop runs one step too far", Harm.MEMORY, ((FOR + r" < (?=[^;]+;)", r"\1 <= "),)),
    MutationOperator(
        "short_loop", "a loop ends one step early", Harm.VALUE, ((FOR + r" < ([\w.]+);", r"\1 < \2 - 1;"),)
    ),
    MutationOperator(
        "skipped_first",
        "a loop begins at its second step",
        Harm.VALUE,
        ((r"for \((int|int64_t) (\w+) = 0;", r"for (\1 \2 = 1;"),),
    ),
    MutationOperator("missing_barrier", "a barrier is missing", Harm.MEMORY, ((r"__syncthreads\(\);", ""),)),
    MutationOperator(
        "dropped_bound",
        "a bounds check is missing",
        Harm.MEMORY,
        (
            (r"if \([^;{}]*(?:>=|<)[^;{}]*\) (?:return|continue);", ""),
            (r"if \(\w+ < \w+\)(?=\s)", "if (true)"),
            (r"\binside \?", "true ?"),
            (r"lane \+ 32 \* i < dim(?= \?|\))", "true"),
        ),
    ),
    MutationOperator(
        "wrong_stride",
        "rows are taken to be one element longer",
        Harm.MEMORY,
        (
            (r"\[([\w.]+) \* ([\w.]+) \+ ([\w.]+)\]", r"[\1 * (\2 + 1) + \3]"),
            (r"\bblockIdx\.x \* (\w+)\b", r"blockIdx.x * (\1 + 1)"),
            (r"\b(row|j|i) \* dim\b", r"\1 * (dim + 1)"),
            (r"\* s\.width \+ (\w+)\]", r"* (s.width + 1) + \1]"),
        ),
    ),
    MutationOperator(
        "swapped_index",
        "two indices are exchanged",
        Harm.VALUE,
        (
            (r"\[([\w.]+)\]\[([\w.]+)\](?! *;)", r"[\2][\1]"),
            (r"\[([\w.]+) \* ([\w.]+) \+ ([\w.]+)\]", r"[\3 * \2 + \1]"),
            (r"= i / ([\w.]+), (\w+) = i % \1", r"= i % \1, \2 = i / \1"),
            (r"blockIdx\.x / (\w+)", r"blockIdx.x % \1"),
        ),
    ),
    MutationOperator(
        "missing_tail",
        "the last, partly filled block is not launched",
        Harm.MEMORY,
        ((r"\(([\w.]+) \+ ([\w.]+) - 1\) / \2", r"(\1) / \2"),),
        Where.HOST,
    ),
    MutationOperator(
        "wrong_grid",
        "one block is launched instead of many",
        Harm.VALUE,
        ((r"<<<(?!blocks_for|1,)(?:[^,()<>]|<[\w ]+>|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+,", "<<<1,"),),
        Where.HOST,
    ),
    MutationOperator(
        "too_many_threads",
        "a block has more threads than a GPU allows",
        Harm.MEMORY,
        ((r"constexpr int kThreads = \d+", "constexpr int kThreads = 2048"),),
        Where.HOST,
    ),
    MutationOperator(
        "uninitialized_shared",
        "part of the shared memory is never written",
        Harm.MEMORY,
        (
            (r"if \(threadIdx\.x % 32 == 0\) (?=\w+\[)", "if (threadIdx.x == 0) "),
            (r"\n( +)(?=\w+\[threadIdx\.y\]\[threadIdx\.x\] = )", r"\n\1if (threadIdx.y != 1) "),
        ),
    ),
    MutationOperator(
        "uninitialized_local",
        "a sum starts from whatever is in the register",
        Harm.VALUE,
        ((r" = \{\}(?=[,;])", ""), (r"\bfloat (\w+) = 0\.0f;", r"float \1;")),
    ),
    MutationOperator(
        "shuffle_mask", "half of the warp is not in the mask", Harm.MEMORY, (("0xffffffffu", "0x0000ffffu"),)
    ),
    MutationOperator(
        "double_write",
        "neighbours write the same element",
        Harm.MEMORY,
        ((r"\b(out|to|grad_\w+|gated)\[([^\];]+)\] =(?=\s)", r"\1[(\2) / 2 * 2] = \1[\2] ="),),
    ),
    MutationOperator(
        "shifted_write",
        "every result is written one element too far",
        Harm.MEMORY,
        ((r"\b(out|to|grad_\w+|gated)\[([^\];]+)\] =(?=\s)", r"\1[\2 + 1] ="),),
    ),
    MutationOperator("lost_eps", "eps is forgotten", Harm.VALUE, ((r" \+ (?:norm\.)?eps\b", ""),)),
    MutationOperator(
        "narrowed_sum",
        "what is added up is rounded to half precision",
        Harm.VALUE,
        ((r"((?:\n +|\) |else )\w+(?:\[i\])? \+= )([^;{}]+);", r"\1__half2float(__float2half(\2));"),),
    ),
    MutationOperator(
        "narrowed_index",
        "an index has 16 bits",
        Harm.MEMORY,
        ((r"const int64_t (?!step|stride|count)(\w+) = ", r"const short \1 = "),),
    ),
    MutationOperator(
        "wrong_initial",
        "a reduction starts from the wrong value",
        Harm.VALUE,
        (("-INFINITY", "0.0f"), (r"\bfloat (\w+) = 0\.0f", r"float \1 = 1.0f")),
    ),
    MutationOperator(
        "wrong_sign", "a sign is wrong", Harm.VALUE, ((r" - ([a-z]\w*(?:\[\w+\])?)(?=[ );\]])", r" + \1"),)
    ),
    MutationOperator(
        "dropped_scale",
        "a factor or a divisor is forgotten",
        Harm.VALUE,
        ((r" \* (?:scale|rstd|sign|shrink|share)\b(?!\[)", ""), (r" / static_cast<float>\(\w+\)", "")),
    ),
    MutationOperator(
        "wrong_function",
        "a related function is called",
        Harm.VALUE,
        ((r"\b(fmaxf|expf|rsqrtf|logf|sqrtf)\(", _other_function),),
    ),
    MutationOperator(
        "short_reduction", "half of a warp is not summed", Harm.VALUE, ((r"int step = 16;", "int step = 8;"),)
    ),
    MutationOperator(
        "lost_term",
        "a summand is forgotten",
        Harm.VALUE,
        (
            (r" \+ (?:static_cast<float>\()?(?:norm\.)?(?:bias|beta|shortcut)\[\w+\]\)?", ""),
            (r" - hat \* turned", ""),
            (r" - (?:sum|delta\[\w+\]|lse\[\w+\])(?=[ );])", ""),
        ),
    ),
    MutationOperator(
        "wrong_shape",
        "the sizes of a result are exchanged",
        Harm.VALUE,
        ((r"torch::empty\(\{(\w+), (\w+)\}", r"torch::empty({\2, \1}"),),
        Where.HOST,
    ),
    MutationOperator(
        "wrong_size",
        "a size is read from the wrong axis",
        Harm.MEMORY,
        ((r"= (\w+)\.size\(-1\)", r"= \1.size(0)"), (r"= (\w+)\.size\(1\)", r"= \1.size(0)")),
        Where.HOST,
    ),
    MutationOperator(
        "in_place",
        "the result is written over an argument",
        Harm.MEMORY,
        ((r"auto (\w+) = torch::empty_like\((x|q|k|v|logits|from)\);", r"auto \1 = \2;"),),
        Where.HOST,
    ),
    MutationOperator(
        "side_stream",
        "a launch goes to a stream that nobody joins",
        Harm.MEMORY,
        ((r"at::cuda::getCurrentCUDAStream\(\)", SIDE_STREAM),),
        Where.HOST,
    ),
)  # fmt: skip

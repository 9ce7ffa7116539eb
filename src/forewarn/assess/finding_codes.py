"""The codes of findings in a script and of their fixes, beside those in `job/sbatch/problems.py`."""

from __future__ import annotations

from forewarn.evidence import Code


class FindingCode(Code):
    """The problems that the script rules find."""

    # the text
    WINDOWS_LINE_ENDS = "windows_line_ends"
    NUL_BYTE = "nul_byte"
    EMPTY_SCRIPT = "empty_script"
    MISSING_SHEBANG = "missing_shebang"
    IGNORED_OPTION = "ignored_option"
    COMMENTED_OPTION = "commented_option"
    PLACEHOLDER_IN_OPTION = "placeholder_in_option"
    PLACEHOLDER = "placeholder"
    OTHER_SCHEDULER = "other_scheduler"
    # options
    MEMORY_TWICE = "memory_twice"
    OPPOSITES = "opposite_options"
    GIVEN_TWICE = "given_twice"
    MINUTES_AND_SECONDS = "minutes_and_seconds"
    MINUTES = "minutes"
    MEMORY_BELOW_OWN_SIZE = "memory_below_own_size"
    SHARED_OUTPUT = "shared_output"
    # tasks
    FEWER_TASKS_THAN_NODES = "fewer_tasks_than_nodes"
    TASKS_DO_NOT_ADD_UP = "tasks_do_not_add_up"
    IDLE_TASKS = "idle_tasks"
    COPIES_WITHOUT_MPI = "copies_without_mpi"
    MPI_WITHOUT_LAUNCHER = "mpi_without_launcher"
    # files
    MISSING_PROGRAM_FILE = "missing_program_file"
    MISSING_FOLDER = "missing_folder"
    MISSING_ARGUMENT = "missing_argument"
    MISSING_INPUT = "missing_input"
    MISSING_INPUT_OF_TASKS = "missing_input_of_tasks"
    NOT_EXECUTABLE = "not_executable"
    NOT_READABLE = "not_readable"
    FOLDER_NOT_ENTERABLE = "folder_not_enterable"
    FOLDER_AS_PROGRAM = "folder_as_program"
    NO_FOLDER_TO_WRITE_TO = "no_folder_to_write_to"
    FILE_NOT_WRITABLE = "file_not_writable"
    FOLDER_NOT_WRITABLE = "folder_not_writable"
    VARIABLE_IN_OPTION = "variable_in_option"
    OUTPUT_FOLDER_NOT_WRITABLE = "output_folder_not_writable"
    MISSING_OUTPUT_FOLDER = "missing_output_folder"
    MISSING_WORK_FOLDER = "missing_work_folder"
    # programs
    MISSING_INTERPRETER = "missing_interpreter"
    INTERPRETER_NOT_ON_PATH = "interpreter_not_on_path"
    NOT_ON_PATH = "not_on_path"
    NO_MODULE_SYSTEM = "no_module_system"
    MISSING_MODULE = "missing_module"
    PROGRAM_WITH_WINDOWS_LINE_ENDS = "program_with_windows_line_ends"
    PROGRAM_WITHOUT_INTERPRETER = "program_without_interpreter"
    WRONG_ARCHITECTURE = "wrong_architecture"
    MISSING_LIBRARY = "missing_library"
    # Python
    NO_CONDA = "no_conda"
    MISSING_ENVIRONMENT = "missing_environment"
    PYTHON_SYNTAX = "python_syntax"
    SCRIPT_IS_NOT_PYTHON = "script_is_not_python"
    MISSING_IMPORT = "missing_import"
    MISSING_OWN_IMPORT = "missing_own_import"
    MISSING_PACKAGE = "missing_package"
    # what `sbatch --test-only` answers
    SBATCH_ACCEPTS = "sbatch_accepts"
    SBATCH_REMARKS = "sbatch_remarks"
    SBATCH_REFUSES = "sbatch_refuses"
    SBATCH_REFUSES_NOW = "sbatch_refuses_now"


class FixCode(Code):
    """The fixes of findings; the values are those of the finding."""

    CONVERT_LINE_ENDS = "convert_line_ends"
    BEGIN_WITH_SHEBANG = "begin_with_shebang"
    MOVE_ABOVE_COMMANDS = "move_above_commands"
    FILL_IN = "fill_in"
    DELETE_LINE = "delete_line"
    KEEP_ONE = "keep_one"
    WRITE_HOURS = "write_hours"
    REQUEST_MORE_THAN_OWN_SIZE = "request_more_than_own_size"
    NAME_BY_TASK = "name_by_task"
    SET_TASKS = "set_tasks"
    START_WITH_SRUN = "start_with_srun"
    ONE_TASK = "one_task"
    PUT_SRUN_BEFORE = "put_srun_before"
    MAKE_EXECUTABLE = "make_executable"
    MAKE_FOLDER = "make_folder"
    SIMILAR_MODULE = "similar_module"
    COMPILE_FOR_NODES = "compile_for_nodes"
    LOAD_LIBRARY = "load_library"
    INSTALL_PACKAGE = "install_package"

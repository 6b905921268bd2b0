# In a job with an environment of nodestage (--stage-venv): the start files before this one have set PATH anew for a login
# shell, and the environment comes first in it again. One that the user has activated stays, and another user gets none.
[ -z "${NODESTAGE_VENV-}" ] || [ ! -O "$NODESTAGE_VENV/bin" ] || case ${CONDA_PREFIX:-${VIRTUAL_ENV:-$NODESTAGE_VENV}} in
    "$NODESTAGE_VENV")
        if [ -z "${VIRTUAL_ENV-}" ] && [ -d "$NODESTAGE_VENV/conda-meta" ]; then
            export CONDA_PREFIX="$NODESTAGE_VENV"
        else
            export VIRTUAL_ENV="$NODESTAGE_VENV"
        fi
        case ${PATH-} in
            "$NODESTAGE_VENV/bin":*) ;;
            *) export PATH="$NODESTAGE_VENV/bin:$PATH" ;;
        esac
        unset PYTHONHOME
        ;;
esac

# Sourced: sets the shell variable `name_x` for every leading option `--name-x value`, as Kaldi's recipes do.
# Only variables that the script has set before can be given. What follows them stays as $1, $2, … where the script has
# set takes_arguments, and is an error elsewhere.
while [ $# -gt 0 ]; do
  case "$1" in
    --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --*)
      name=$(printf %s "${1#--}" | tr - _)
      if [ -z "${!name+set}" ]; then echo "$0: unknown option $1" >&2; exit 1; fi
      if [ $# -lt 2 ]; then echo "$0: option $1 needs a value" >&2; exit 1; fi
      printf -v "$name" %s "$2"
      shift 2 ;;
    *) [ -z "${takes_arguments:-}" ] || break
       echo "$0: unexpected argument '$1'" >&2; exit 1 ;;
  esac
done

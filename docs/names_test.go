package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namesOfTransports finds the name of a transport of this project. The words grpc and calibration
// have other meanings too, and are left out, as is a path of shared memory.
var namesOfTransports = regexp.MustCompile(`\b(shm|copyrpc|ucxam|erpc|tcpx|ofi)\b`)

// packageForTests matches files that the product does not link.
var packageForTests = regexp.MustCompile(`/(clitest|doctest|historytest|schematest|transporttest)/`)

// namedHere are the texts of the product that may name a transport, by the file below core and cmd,
// each with the reason.
var namedHere = map[string]string{
	"core/base/config/config.go":      "the default of --transport",
	"core/base/carrier/segments.go":   "a path, /dev/shm",
	"core/lab/judge/doctor/kernel.go": "a path, /dev/shm",
	"core/lab/judge/doctor/memory.go": "a path, /dev/shm",
	"core/plugin/host/sysv.go":        "a path, /proc/sysvipc/shm",
	"core/lab/store/result/migrate.go": "results of schema 1.x, of which one " +
		"transport differs",
	"core/lab/judge/compare/threshold.go":                  "an example in an error",
	"core/plugin/internal/accept/info.go":                  "an example in an error",
	"cmd/transportbench/internal/cli/root.go":              "an example in the help",
	"cmd/transportbench/internal/comparison/comparison.go": "an example in the help",
	"cmd/transportbench/internal/inspect/diff.go":          "an example in the help",
	"cmd/transportbench/internal/measure/ab.go":            "an example in the help",
	"cmd/transportbench/internal/measure/trace.go":         "an example in the help",
}

// TestNoTransportByName checks that the host knows no transport by its name, so that one from
// elsewhere is as good as those of this project. Examples of commands and packages of tests may
// name them.
func TestNoTransportByName(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"core", "cmd/transportbench"} {
		require.NoError(t, filepath.WalkDir("../"+root,
			func(path string, _ fs.DirEntry, err error) error {
				name := strings.TrimPrefix(filepath.ToSlash(path), "../")
				if err != nil || !strings.HasSuffix(name, ".go") ||
					strings.HasSuffix(name, "_test.go") ||
					strings.HasPrefix(name, "core/fabric/") ||
					packageForTests.MatchString(name) {
					return err
				}
				set := token.NewFileSet()
				file, err := parser.ParseFile(set, path, nil, 0)
				if err != nil {
					return err
				}
				ast.Inspect(file, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.ImportSpec:
						return false
					case *ast.KeyValueExpr:
						key, isName := n.Key.(*ast.Ident)
						return !isName || key.Name != "Example"
					case *ast.BasicLit:
						text, err := strconv.Unquote(n.Value)
						if n.Kind != token.STRING || err != nil ||
							!namesOfTransports.MatchString(text) {
							return true
						}
						found[name] = true
						require.Contains(t, namedHere, name, "%s names a transport: %s",
							set.Position(n.Pos()), n.Value)
					}
					return true
				})
				return nil
			}))
	}
	for name := range namedHere {
		require.True(t, found[name], "%s names no transport any more: take it off the list", name)
	}
}

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ordinaryWords are names of transports that mean other things too. Only a text that is such a name
// and no more counts.
var ordinaryWords = []string{"grpc", "sockets"}

// packageForTests matches files that the product does not link.
var packageForTests = regexp.MustCompile(`/(clitest|doctest|historytest|schematest|transporttest)/`)

// namedHere are the texts of the product that may name a transport, by the file below core and cmd,
// each with the reason.
var namedHere = map[string]string{
	"core/base/config/config.go":      "the default of --transport",
	"core/base/carrier/segments.go":   "a path, /dev/shm",
	"core/lab/judge/doctor/doctor.go": "a path, /dev/shm",
	"core/lab/judge/doctor/kernel.go": "a path, /dev/shm",
	"core/lab/judge/doctor/memory.go": "a path, /dev/shm",
	"core/plugin/host/sysv.go":        "a path, /proc/sysvipc/shm",
	"core/lab/store/result/migrate.go": "results of schema 1.x, of which one " +
		"transport differs",
	"core/lab/judge/calibration/power.go": "a class of operations",
	"core/transport/transport.go":         "a group of transports",
	"core/lab/study/calibrate/plan.go": "a calibration's operations are fixed, so that two " +
		"calibrations compare",
	"core/lab/judge/compare/threshold.go":                  "an example in an error",
	"core/plugin/internal/accept/info.go":                  "an example in an error",
	"cmd/transportbench/internal/cli/root.go":              "an example in the help",
	"cmd/transportbench/internal/comparison/comparison.go": "an example in the help",
	"cmd/transportbench/internal/inspect/diff.go":          "an example in the help",
	"cmd/transportbench/internal/measure/ab.go":            "an example in the help",
	"cmd/transportbench/internal/measure/trace.go":         "an example in the help",
}

// transportNames returns a function that reports whether a text of the product names a transport of
// this project, and one for identifiers.
func transportNames(t *testing.T) (text, identifier func(string) bool) {
	dirs, err := filepath.Glob("../plugins/*")
	require.NoError(t, err)
	var names []string
	for _, dir := range dirs {
		switch name := filepath.Base(dir); {
		case slices.Contains(ordinaryWords, name), name == "calibration":
			// calibration tests the tool, which has to know it
		default:
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	inText := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	word := regexp.MustCompile(`[A-Z]*[a-z0-9]*`)
	return func(s string) bool {
			return slices.Contains(ordinaryWords, s) || inText.MatchString(s)
		}, func(s string) bool {
			return slices.ContainsFunc(word.FindAllString(s, -1), func(w string) bool {
				return slices.Contains(names, strings.ToLower(w))
			})
		}
}

// TestNoTransportByName checks that the host knows no transport by its name, so that one from
// elsewhere is as good as those of this project. Examples of commands and packages of tests may
// name them.
func TestNoTransportByName(t *testing.T) {
	namesTransport, isNamedAfterOne := transportNames(t)
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
				check := func(n ast.Node, text string) {
					found[name] = true
					require.Contains(t, namedHere, name, "%s names a transport: %s",
						set.Position(n.Pos()), text)
				}
				packages := map[string]bool{}
				for _, i := range file.Imports {
					packages[filepath.Base(strings.Trim(i.Path.Value, `"`))] = true
				}
				ast.Inspect(file, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.ImportSpec:
						return false
					case *ast.KeyValueExpr:
						key, isName := n.Key.(*ast.Ident)
						return !isName || key.Name != "Example"
					case *ast.Ident:
						if isNamedAfterOne(n.Name) && !packages[n.Name] {
							check(n, n.Name)
						}
					case *ast.BasicLit:
						text, err := strconv.Unquote(n.Value)
						if n.Kind == token.STRING && err == nil && namesTransport(text) {
							check(n, n.Value)
						}
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

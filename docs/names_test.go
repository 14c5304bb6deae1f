package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
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

// kernelNames matches names of the kernel's own shared memory.
var kernelNames = regexp.MustCompile(`(?i)dev[/-]?shm|sysv(ipc/)?shm|docker run --shm-size`)

// namedHere are the texts of the product that may name a transport, by the file below core and cmd
// and the text, each with the reason.
var namedHere = map[[2]string]string{
	{"core/base/config/config.go", "shm"}:              "the default of --transport",
	{"core/lab/store/result/migrate.go", "ucxam"}:      "its results of schema 1.x differ",
	{"core/lab/judge/calibration/power.go", "sockets"}: "a class of operations",
	{"core/transport/transport.go", "sockets"}:         "a group of transports",
	{"core/lab/study/calibrate/plan.go", "sockets"}:    "a fixed operation of calibrations",
}

// parts are names of what one transport is made of.
var parts = []string{"spsc", "fastforward", "lamport", "onesided"}

// sharedMemory are the names of what core/fabric/shm has for all transports.
var sharedMemory = append([]string{"shm"}, parts...)

// transportNames returns a function that reports whether a text of the product names a transport of
// this project, and one for identifiers. They do not know the names in except.
func transportNames(t *testing.T, except ...string) (text, identifier func(string) bool) {
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
	names = slices.DeleteFunc(append(names, parts...),
		func(name string) bool { return slices.Contains(except, name) })
	inText := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	word := regexp.MustCompile(`[A-Z]*[a-z0-9]*`)
	return func(s string) bool {
			s = kernelNames.ReplaceAllString(s, "")
			return slices.Contains(ordinaryWords, s) || inText.MatchString(s)
		}, func(s string) bool {
			s = kernelNames.ReplaceAllString(s, "")
			return slices.ContainsFunc(word.FindAllString(s, -1), func(w string) bool {
				return slices.Contains(names, strings.ToLower(w))
			})
		}
}

// TestNoTransportByName checks that the host knows no transport by its name, so that one from
// elsewhere is as good as those of this project. Examples of commands and packages of tests may
// name them.
func TestNoTransportByName(t *testing.T) {
	namesAny, isNamedAfterAny := transportNames(t)
	namesOther, isNamedAfterOther := transportNames(t, sharedMemory...)
	found := map[[2]string]bool{}
	for _, root := range []string{"core", "cmd/transportbench"} {
		require.NoError(t, filepath.WalkDir("../"+root,
			func(path string, entry fs.DirEntry, err error) error {
				name := strings.TrimPrefix(filepath.ToSlash(path), "../")
				if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") ||
					strings.Contains(name, "/testdata/") || packageForTests.MatchString(name) {
					return err
				}
				namesTransport, isNamedAfterOne := namesAny, isNamedAfterAny
				if strings.HasPrefix(name, "core/fabric/") {
					namesTransport, isNamedAfterOne = namesOther, isNamedAfterOther
				}
				if filepath.Ext(name) != ".go" { // a page, a style, a shim in C
					text, err := os.ReadFile(path)
					if namesTransport(string(text)) {
						t.Errorf("%s names a transport", name)
					}
					return err
				}
				set := token.NewFileSet()
				file, err := parser.ParseFile(set, path, nil, 0)
				if err != nil {
					return err
				}
				check := func(n ast.Node, text string) {
					here := [2]string{name, text}
					found[here] = true
					if namedHere[here] == "" {
						t.Errorf("%s names a transport: %s", set.Position(n.Pos()), text)
					}
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
							check(n, text)
						}
					}
					return true
				})
				return nil
			}))
	}
	for here := range namedHere {
		require.True(t, found[here], "%q is not there any more: take it off the list", here)
	}
}

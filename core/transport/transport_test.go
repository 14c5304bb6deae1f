package transport

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSizeOfOp checks that an op stays as small as it is: clients copy and read one for every call.
func TestSizeOfOp(t *testing.T) {
	require.EqualValues(t, 40, reflect.TypeFor[Op]().Size())
}

// maxOptional is how many optional interfaces the contract may have: each is one more thing that
// the author of a transport has to know.
const maxOptional = 7

// TestOptionalInterfaces checks that optional.go has the optional interfaces, and that the
// package's documentation lists the same ones.
func TestOptionalInterfaces(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	declared := map[string]string{} // interface to file
	var documented []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, is := spec.Type.(*ast.InterfaceType); is {
				declared[spec.Name.Name] = path
			}
			return false
		})
		if path == "doc.go" {
			_, list, found := strings.Cut(file.Doc.Text(), "# Optional parts")
			require.True(t, found)
			for _, item := range regexp.MustCompile(`(?m)^  - \[(\w+)\]`).FindAllStringSubmatch(
				list, -1) {
				documented = append(documented, item[1])
			}
		}
	}
	for _, required := range []string{"Driver", "Transport", "Worker"} {
		require.Equal(t, "transport.go", declared[required], required)
		delete(declared, required)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(declared)), documented)
	for name, path := range declared {
		require.Equal(t, "optional.go", path, name)
	}
	require.LessOrEqual(t, len(declared), maxOptional)
}

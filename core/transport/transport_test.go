package transport

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSizeOfOp checks that an op stays as small as it is: clients copy and read one for every call.
func TestSizeOfOp(t *testing.T) {
	require.EqualValues(t, 40, reflect.TypeFor[Op]().Size())
}

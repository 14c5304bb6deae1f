package measure_test

import (
	"testing"

	"transportbench/cmd/transportbench/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, nil) }

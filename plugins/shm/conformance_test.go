package shm

import (
	"testing"

	"go.uber.org/goleak"

	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for _, name := range schema[0].Allowed {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{
				Driver:  Driver{},
				Options: map[string]string{"ring": name},
			})
		})
	}
}

func TestConformanceNamed(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Driver:  Driver{},
		Options: map[string]string{"backing": "named"},
	})
}

// TestConformanceArmed arms every idle ring, so that each message after a pause needs a
// notification.
func TestConformanceArmed(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Driver:  Driver{},
		Options: map[string]string{"hot-rings": "0"},
	})
}

package parallel

import (
	"cmp"
	"runtime"
	"sync"
)

// Each calls do with 0 to n-1, as many at a time as there are processors. It returns the error of
// the lowest number that failed.
func Each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var working sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	working.Wait()
	return cmp.Or(errs...)
}

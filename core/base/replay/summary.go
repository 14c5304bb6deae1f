package replay

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"transportbench/core/base/config"
)

// Part is a part of a trace, as it was prepared.
type Part struct {
	Digest string `json:"digest"` // SHA-256 of the trace's file as it is, in hexadecimal
	Format string `json:"format"`
	// From is where the part begins, since the first request.
	From time.Duration `json:"from_ns"`
	// Rounded means that requests of one time were spread up to the next time.
	Rounded bool   `json:"rounded,omitempty"`
	Bytes   int64  `json:"bytes"`            // of the trace's file
	Shared  uint64 `json:"shared,omitempty"` // operations on keys that share the entry of another
	Summary
}

// Summary describes a part of a trace.
type Summary struct {
	// Requests are those of the trace. Operations are what they consist of: as many, unless a
	// request stands for several blocks.
	Requests   uint64            `json:"requests"`
	Operations uint64            `json:"operations"`
	ByOp       map[string]uint64 `json:"by_operation"`
	Classes    map[string]uint64 `json:"classes,omitempty"` // requests
	// Length is the time of the part: up to its end, or a mean gap after the last request. It is 0
	// if all requests have one time.
	Length time.Duration `json:"length_ns"`
	// Rates are the operations in equal times of Step each.
	Rates []uint64      `json:"rates"`
	Step  time.Duration `json:"step_ns"`
	// Burstiness is the variance of the operations in a second by their mean, the index of
	// dispersion: 1 for independent requests. It is 0 if the part is shorter than 8 seconds.
	Burstiness float64 `json:"burstiness,omitempty"`

	// Forth and Back are the mean bytes of the values of a request and of its response, over all
	// operations.
	Forth float64 `json:"forth"`
	Back  float64 `json:"back"`
	// Sizes is the distribution of the sizes of all values, in buckets of an eighth.
	Sizes config.Sizes `json:"sizes"`

	Keys       uint64  `json:"keys"`
	WorkingSet uint64  `json:"working_set"` // bytes: the first value of each key
	Once       uint64  `json:"once"`        // operations that are the first of their key
	ReadShare  float64 `json:"read_share"`
	// HitRate is the share of reads and lookups whose key occurred before: of a cache that is empty
	// at first and never full. With blocks of tokens it is that of the blocks of prompts.
	HitRate      float64 `json:"hit_rate"`
	ReuseMedian  uint64  `json:"reuse_p50"` // other keys between two operations of one
	ReuseLargest uint64  `json:"reuse_p99"`
}

// PeakRate returns the largest rate of a step, in operations per second.
func (s *Summary) PeakRate() float64 {
	return float64(slices.Max(s.Rates)) / s.Step.Seconds()
}

// Rate returns the mean rate in operations per second.
func (s *Summary) Rate() float64 { return float64(s.Operations) / s.Length.Seconds() }

// Between returns the operations from one time of the part to another. Those of a step of Rates
// count as spread evenly over it.
func (s *Summary) Between(from, to time.Duration) (n float64) {
	for i, count := range s.Rates {
		begin := time.Duration(i) * s.Step
		if both := min(to, begin+s.Step) - max(from, begin); both > 0 {
			n += float64(count) * float64(both) / float64(s.Step)
		}
	}
	return n
}

// maxSteps bounds the rates of a summary.
const maxSteps = 120

// sizeBits is the resolution of sizes, and distanceBits that of distances: a bucket is at most
// 1/8 wide, or 1/64.
const sizeBits, distanceBits = 3, 6

// The operations as records have them.
var (
	OpRead   = OpOf(config.OpRead)
	OpWrite  = OpOf(config.OpWrite)
	OpLookup = OpOf(config.OpLookup)
)

// OpOf returns an operation, which has a name of [config.OpNames], as records have it.
func OpOf(name string) uint8 { return uint8(slices.Index(config.OpNames(), name)) }

// Summarize reads a file and says what is in it. Requests, Classes and HitRate are the caller's to
// set: they are not in the file.
func Summarize(f *File) (s Summary, err error) {
	keys, err := f.Sizes()
	if err != nil {
		return s, err
	}
	for _, size := range keys {
		s.WorkingSet += uint64(size)
	}
	s.Keys, s.Operations, s.Step = f.Keys, f.Records, time.Millisecond
	var byOp [8]uint64
	var seconds dispersion
	var sizes, sums [34 << sizeBits]uint64
	distances := reuse{last: make([]uint32, f.Keys)}
	records, memory := make([]Record, 1<<12), make([]byte, Room<<12)
	var last uint64
	largest := slices.Max(keys)
	for at := uint64(0); at < f.Records; {
		n, err := f.Read(records, memory, at)
		if err != nil {
			return s, err
		}
		at += uint64(n)
		for i := range records[:n] {
			r := &records[i]
			last = r.At
			s.count(time.Duration(r.At))
			seconds.add(r.At / uint64(time.Second))
			byOp[r.Op]++
			distances.use(r.Key)
			largest = max(largest, r.Size)
			if r.Op == OpLookup {
				continue
			}
			bucket := bucketOf(r.Size, sizeBits)
			sizes[bucket]++
			sums[bucket] += uint64(r.Size)
			if r.Op != OpWrite {
				s.Back += float64(r.Size)
			}
			if r.Op != OpRead {
				s.Forth += float64(r.Size)
			}
		}
	}
	s.ByOp = map[string]uint64{}
	for op, n := range byOp {
		if n > 0 {
			s.ByOp[config.OpNames()[op]] = n
		}
	}
	s.Forth, s.Back = s.Forth/float64(s.Operations), s.Back/float64(s.Operations)
	s.ReadShare = float64(byOp[OpRead]+byOp[OpLookup]) / float64(s.Operations)
	if last > 0 {
		s.Length = time.Duration(last + max(last/max(f.Records-1, 1), 1))
	}
	s.Burstiness = seconds.index()
	s.Once, s.ReuseMedian, s.ReuseLargest = distances.first, distances.quantile(0.5),
		distances.quantile(0.99)
	var weights []config.SizeWeight
	for bucket, n := range sizes {
		if n > 0 {
			weights = append(weights, config.SizeWeight{Size: config.Size(sums[bucket] / n),
				Weight: float64(n)})
		}
	}
	if n := len(weights); n > 0 { // a run makes room for the largest value
		weights[n-1].Size = max(weights[n-1].Size, config.Size(largest))
		s.Sizes, err = config.HistogramSizes(weights)
	}
	return s, err
}

// bucketOf returns the bucket of a value: each power of two has 1<<resolution.
func bucketOf(value uint32, resolution int) int {
	shift := max(bits.Len32(value)-resolution-1, 0)
	return shift<<resolution + int(value>>shift)
}

// count adds an operation to the rates. It doubles the step when a time is beyond the last one.
func (s *Summary) count(at time.Duration) {
	for at/s.Step >= maxSteps {
		for i := range s.Rates {
			n := s.Rates[i]
			s.Rates[i] = 0
			s.Rates[i/2] += n
		}
		s.Rates = s.Rates[:(len(s.Rates)+1)/2]
		s.Step *= 2
	}
	for int(at/s.Step) >= len(s.Rates) {
		s.Rates = append(s.Rates, 0)
	}
	s.Rates[at/s.Step]++
}

// dispersion is the index of dispersion of counts in seconds, which come in order.
type dispersion struct {
	second, n    uint64
	sum, squares float64
}

func (d *dispersion) add(second uint64) {
	if second != d.second {
		d.squares += float64(d.n) * float64(d.n)
		d.second, d.n = second, 0
	}
	d.n++
	d.sum++
}

// index leaves out the last second, which is not whole.
func (d *dispersion) index() float64 {
	seconds, sum := float64(d.second), d.sum-float64(d.n)
	if seconds < 8 || sum == 0 {
		return 0
	}
	mean := sum / seconds
	return (d.squares/seconds - mean*mean) / mean
}

// reuse counts the distances between two uses of a key: the number of other keys in between. It has
// the time of the last use of each key, and a Fenwick tree that counts last uses up to a time.
type reuse struct {
	last  []uint32 // by key: when it was used, from 1; 0 is never
	tree  []uint32
	now   uint32
	first uint64
	// distances by their bucket
	distances [34 << distanceBits]uint64
	uses      uint64
}

func (r *reuse) use(key uint32) {
	if int(r.now)+1 >= len(r.tree) {
		r.compact()
	}
	if last := r.last[key]; last == 0 {
		r.first++
	} else {
		r.uses++
		r.distances[bucketOf(r.upTo(r.now)-r.upTo(last), distanceBits)]++
		r.add(last, ^uint32(0))
	}
	r.now++
	r.last[key] = r.now
	r.add(r.now, 1)
}

// compact gives the last uses the times 1, 2, 3 and so on, in their order.
func (r *reuse) compact() {
	used := make([]uint32, 0, len(r.last))
	for key, last := range r.last {
		if last > 0 {
			used = append(used, uint32(key))
		}
	}
	slices.SortFunc(used, func(a, b uint32) int { return int(r.last[a]) - int(r.last[b]) })
	r.tree = make([]uint32, 2*max(len(r.last), 1<<10))
	for i, key := range used {
		r.last[key] = uint32(i + 1)
		r.add(uint32(i+1), 1)
	}
	r.now = uint32(len(used))
}

func (r *reuse) add(at, n uint32) {
	for ; int(at) < len(r.tree); at += at & -at {
		r.tree[at] += n
	}
}

func (r *reuse) upTo(at uint32) (sum uint32) {
	for ; at > 0; at -= at & -at {
		sum += r.tree[at]
	}
	return sum
}

func (r *reuse) quantile(share float64) uint64 {
	want, sum := uint64(math.Ceil(share*float64(r.uses))), uint64(0)
	for bucket, n := range r.distances {
		if sum += n; sum >= want && n > 0 {
			shift := max(bucket>>distanceBits-1, 0)
			return uint64(bucket-shift<<distanceBits) << shift
		}
	}
	return 0
}

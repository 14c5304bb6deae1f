package workload

// alias is an entry of a table from which one draw picks an item with a
// probability proportional to its weight (Walker, "An efficient method for
// generating discrete random variables with general distributions", 1977).
type alias struct {
	keep  uint64 // below this fraction of 2^64 the item itself, else other
	other uint32
}

// newAliases fills the table by Vose's method ("A linear algorithm for
// generating random numbers with a given distribution", 1991): every item that
// has less than the mean weight is filled up with a part of one that has more.
// It uses up the weights.
func newAliases(weights []float64) []alias {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	table := make([]alias, len(weights))
	var small, large []uint32
	for i := range weights {
		weights[i] *= float64(len(weights)) / total
		table[i] = alias{keep: 1<<64 - 1, other: uint32(i)}
		if weights[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		table[s].keep = uint64(weights[s] * (1 << 64))
		table[s].other = l
		weights[l] -= 1 - weights[s]
		if weights[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return table
}

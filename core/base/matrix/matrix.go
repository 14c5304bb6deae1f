package matrix

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// MaxRanks bounds the rows.
	MaxRanks = 64
	// MaxFile bounds the bytes of a file.
	MaxFile = 1 << 20
)

// Matrix has a row for each rank: the weights of its calls to each rank, which are finite and not
// negative. It is square, its diagonal is 0, and some weight is not.
type Matrix [][]float64

// Read reads CSV without a header: a line for each rank with its weights, separated by commas.
func Read(csv []byte) (Matrix, error) {
	text := strings.TrimSpace(strings.ReplaceAll(string(csv), "\r\n", "\n"))
	return Parse(strings.NewReplacer(",", ":", "\n", "/").Replace(text))
}

// Parse parses the format of String: rows are separated by slashes, and weights by colons.
func Parse(text string) (m Matrix, err error) {
	rows := strings.Split(text, "/")
	if n := len(rows); n < 2 || n > MaxRanks {
		return nil, fmt.Errorf("a matrix has 2 to %d rows, and not %d", MaxRanks, n)
	}
	sum := 0.0
	for i, line := range rows {
		cells := strings.Split(line, ":")
		if len(cells) != len(rows) {
			return nil,
				fmt.Errorf("row %d has %d columns, and the matrix %d rows; both are the ranks",
					i+1, len(cells), len(rows))
		}
		row := make([]float64, len(cells))
		for j, cell := range cells {
			cell = strings.TrimSpace(cell)
			w, err := strconv.ParseFloat(cell, 64)
			switch {
			case err != nil || !(w >= 0) || math.IsInf(w, 1):
				return nil, fmt.Errorf("row %d, column %d: %.20q is not a weight from 0", i+1, j+1,
					cell)
			case i == j && w != 0:
				return nil, fmt.Errorf("row %d, column %d: no rank calls itself; use 0", i+1, j+1)
			}
			row[j] = w
			sum += w
		}
		m = append(m, row)
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("the sum of the weights is %g", sum)
	}
	return m, nil
}

func (m Matrix) String() string {
	var b strings.Builder
	for i, row := range m {
		for j, w := range row {
			switch {
			case j > 0:
				b.WriteByte(':')
			case i > 0:
				b.WriteByte('/')
			}
			b.WriteString(strconv.FormatFloat(w, 'g', -1, 64))
		}
	}
	return b.String()
}

// Share returns the share of all calls that a rank makes.
func (m Matrix) Share(rank int) float64 {
	own, all := 0.0, 0.0
	for i, row := range m {
		for _, w := range row {
			all += w
			if i == rank {
				own += w
			}
		}
	}
	return own / all
}

// Pairs returns the pairs of a rank and a rank that it calls, by ranks.
func (m Matrix) Pairs() (list [][2]int) {
	for i, row := range m {
		for j, w := range row {
			if w > 0 {
				list = append(list, [2]int{i, j})
			}
		}
	}
	return list
}

// Within returns the share of a rank's calls that go to another.
func (m Matrix) Within(rank, to int) float64 {
	sum := 0.0
	for _, w := range m[rank] {
		sum += w
	}
	return m[rank][to] / sum
}

// Targets returns at least n ranks for a rank that calls each with the same probability. A rank is
// in the list as often as its weight in the row demands, and at least once if that is not 0. The
// list is empty for a rank that calls none.
func (m Matrix) Targets(rank, n int) (list []uint64) {
	for to, w := range m[rank] {
		if w > 0 {
			for range max(1, int(math.Round(float64(n)*m.Within(rank, to)))) {
				list = append(list, uint64(to))
			}
		}
	}
	return list
}

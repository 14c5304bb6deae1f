package trace

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/replay"
)

var opRead, opWrite, opLookup = replay.OpRead, replay.OpWrite, replay.OpLookup

// prepare prepares a trace and returns its records.
func prepare(t testing.TB, from io.Reader, o Options) (*replay.Part, []replay.Record, []uint32,
	error) {
	t.Helper()
	file, err := files.Temporary(t.TempDir())
	require.NoError(t, err)
	defer file.Close()
	part, err := Prepare(from, o, file)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := replay.Open(files.PathOf(file), config.MaxValueSize)
	require.NoError(t, err)
	defer f.Close()
	records := make([]replay.Record, f.Records+1)
	n, err := f.Read(records, make([]byte, replay.Room*len(records)), 0)
	require.NoError(t, err)
	require.EqualValues(t, f.Records, n)
	sizes, err := f.Sizes()
	require.NoError(t, err)
	return part, records[:n], sizes, nil
}

var opRMW = replay.OpOf(config.OpRMW)

const ms = uint64(time.Millisecond)

func TestOwnFormat(t *testing.T) {
	want := []replay.Record{
		{At: 0, Op: opRead, Key: 0, Size: 100, Client: 0},
		{At: 1500 * ms, Op: opWrite, Key: 1, Size: 7, Client: 1},
		{At: 1500*ms + 1, Op: opRMW, Key: 0, Size: 90, Client: 2},
		{At: 2000 * ms, Op: opLookup, Key: 2, Client: 3},
	}
	lines := "10,get,a,100\n11.5,SET,b,7\n11.500000001,read-modify-write,a,90\n12,exists,c,\n"
	for name, text := range map[string]string{
		"header": "time,op,key,size\n" + lines,
		"other order and names": "obj_id,timestamp,value_size,command\n" +
			"a,10,100,read\nb,11.5,7,add\na,11.500000001,90,incr\nc,12,0,touch\n",
		"no header": lines,
		"blank lines": "\n" + strings.ReplaceAll(lines, "\n", "\r\n\n") +
			" ",
		"quotes": "time,op,key,size\n" + strings.ReplaceAll(lines, ",a,", `,"a",`),
		"a class, which says nothing of clients": "time,op,key,size,class\n" +
			strings.ReplaceAll(lines, "\n", ",batch\n"),
		"objects": `{"time":10,"op":"read","key":"a","size":100}
{"id":"c","key":"b","time":11.5,"ts":9,"op":"write","size":7,"bytes":8,"color":"red","client":null}
{"time":"11.500000001","op":"rmw","key":"a","size":"90"}
{"time":12,"op":"lookup","key":"c","size":0}`,
	} {
		part, records, sizes, err := prepare(t, strings.NewReader(text), Options{})
		require.NoError(t, err, name)
		require.Equal(t, want, records, name)
		require.Equal(t, []uint32{100, 7, 0}, sizes, name)
		require.Equal(t, "requests", part.Format)
		sum := sha256.Sum256([]byte(text))
		require.Equal(t, hex.EncodeToString(sum[:]), part.Digest)
	}
}

func TestSummary(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,op,key,size,client,class\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "%d.%d,%s,%d,%d,c%d,batch\n", i/10, i%10,
			[]string{"read", "write"}[i%2], i%50, 100+i%2*100, i%3)
	}
	part, records, _, err := prepare(t, strings.NewReader(text.String()), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 1000, part.Requests)
	require.Equal(t, 100*time.Second, part.Length)
	require.InDelta(t, 10, part.Rate(), 1e-9)
	require.InDelta(t, 0, part.Burstiness, 1e-9, "equal gaps")
	require.EqualValues(t, 50, part.Keys)
	require.EqualValues(t, 50, part.Once)
	require.EqualValues(t, 49, part.ReuseMedian)
	require.EqualValues(t, 49, part.ReuseLargest)
	require.EqualValues(t, 25*100+25*200, part.WorkingSet)
	require.InDelta(t, (500-25)/500., part.HitRate, 1e-9)
	require.Equal(t, map[string]uint64{"read": 500, "write": 500}, part.ByOp)
	require.Equal(t, map[string]uint64{"batch": 1000}, part.Classes)
	require.InDelta(t, 100, part.Forth, 1e-9, "half of the requests have 200 bytes")
	require.InDelta(t, 50, part.Back, 1e-9)
	require.InDelta(t, 150, part.Sizes.Mean(), 1e-9)
	require.LessOrEqual(t, len(part.Rates), 120)
	require.Equal(t, records[0].Client, records[3].Client, "of the same client")
	require.NotEqual(t, records[0].Client, records[1].Client)

	_, again, _, err := prepare(t, strings.NewReader(text.String()),
		Options{From: 10 * time.Second, For: 20 * time.Second})
	require.NoError(t, err)
	require.Len(t, again, 200)
	require.Zero(t, again[0].At)
	_, _, _, err = prepare(t, strings.NewReader(text.String()), Options{From: time.Hour})
	require.ErrorContains(t, err, "no request is in the part: the trace ends after 1m39.9s")
}

func TestReuseDistance(t *testing.T) {
	keys := []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3}
	var text strings.Builder
	for i := range 20_000 { // the tree is made anew several times
		fmt.Fprintf(&text, "%d,read,%d,1\n", i, keys[i%len(keys)]+i%7)
	}
	part, records, _, err := prepare(t, strings.NewReader(text.String()), Options{})
	require.NoError(t, err)
	distances := map[uint64]int{}
	uses := 0
	var stack []uint32 // the last used key last
	for _, r := range records {
		for i := len(stack) - 1; i >= 0; i-- {
			if stack[i] == r.Key {
				distances[uint64(len(stack)-1-i)]++
				uses++
				stack = append(stack[:i], stack[i+1:]...)
				break
			}
		}
		stack = append(stack, r.Key)
	}
	for _, q := range []struct {
		share float64
		got   uint64
	}{{0.5, part.ReuseMedian}, {0.99, part.ReuseLargest}} {
		below, upTo := 0, 0
		for distance, n := range distances {
			if distance < q.got {
				below += n
			}
			if distance <= q.got {
				upTo += n
			}
		}
		require.Less(t, float64(below), q.share*float64(uses))
		require.GreaterOrEqual(t, float64(upTo), q.share*float64(uses))
	}
}

func TestTwitter(t *testing.T) {
	text := "5,k1,2,100,7,get,0\n5,k2,2,50,8,set,60\n7,k1,2,100,7,gets,0\n7,k3,2,0,7,delete,0\n"
	part, records, _, err := prepare(t, strings.NewReader(text), Options{})
	require.NoError(t, err)
	require.Equal(t, "twitter", part.Format)
	require.True(t, part.Rounded)
	var times []uint64
	for _, r := range records {
		times = append(times, r.At/ms)
	}
	require.Equal(t, []uint64{0, 1000, 2000, 3000}, times, "spread over two seconds")
	require.Equal(t, []uint8{opRead, opWrite, opRead, opLookup},
		[]uint8{records[0].Op, records[1].Op, records[2].Op, records[3].Op})
	require.Equal(t, records[0].Client, records[2].Client)
	require.Equal(t, 4*time.Second, part.Length)
}

func TestMooncake(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 1500, "output_length": 600, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 0, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 2048, "output_length": 1, "hash_ids": [0, 1, 7, 8]}
`
	_, _, _, err := prepare(t, strings.NewReader(text), Options{})
	require.ErrorContains(t, err, "say how large one is, with --model or --bytes-per-token")
	part, records, sizes, err := prepare(t, strings.NewReader(text), Options{BytesPerToken: 10})
	require.NoError(t, err)
	require.Equal(t, "mooncake", part.Format)
	require.EqualValues(t, 3, part.Requests)
	require.InDelta(t, 4./9, part.HitRate, 1e-9)
	type short struct {
		ms   uint64
		op   uint8
		key  uint32
		size uint32
	}
	var got []short
	for _, r := range records {
		got = append(got, short{r.At / ms, r.Op, r.Key, r.Size})
	}
	last := uint32((1500 - 1024) * 10)
	require.Equal(t, []short{
		{0, opLookup, 0, 5120}, {0, opWrite, 0, 5120}, {0, opWrite, 1, 5120},
		{0, opWrite, 2, last}, {0, opWrite, 3, 5120}, {0, opWrite, 4, 880},
		{1500, opLookup, 0, 0}, {1500, opLookup, 1, 0}, {1500, opRead, 0, 5120},
		{1500, opRead, 1, 5120},
		{3000, opLookup, 0, 0}, {3000, opLookup, 1, 0}, {3000, opRead, 0, 5120},
		{3000, opRead, 1, 5120}, {3000, opLookup, 5, 5120}, {3000, opWrite, 5, 5120},
		{3000, opWrite, 6, 5120}, {3000, opWrite, 7, 10},
	}, got)
	require.Equal(t, []uint32{5120, 5120, last, 5120, 880, 5120, 5120, 10}, sizes)
}

func TestCompressed(t *testing.T) {
	text := strings.Repeat("1,read,k,5\n", 1000)
	var zipped bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, err := io.WriteString(g, text)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	for _, file := range [][]byte{zipped.Bytes(), z.EncodeAll([]byte(text), nil)} {
		part, records, _, err := prepare(t, bytes.NewReader(file), Options{})
		require.NoError(t, err)
		require.Len(t, records, 1000)
		sum := sha256.Sum256(file)
		require.Equal(t, hex.EncodeToString(sum[:]), part.Digest, "of the file as it is")
		_, _, _, err = prepare(t, bytes.NewReader(file[:len(file)-5]), Options{})
		require.Error(t, err, "cut off")
	}
}

// bomb returns what a gzip file of that many bytes of one line expands from.
func bomb(t *testing.T, line string, size int) io.Reader {
	var zipped bytes.Buffer
	g, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	require.NoError(t, err)
	chunk := []byte(strings.Repeat(line, 1<<20/len(line)))
	for written := 0; written < size; written += len(chunk) {
		_, err := g.Write(chunk)
		require.NoError(t, err)
	}
	require.NoError(t, g.Close())
	return &zipped
}

func TestHostile(t *testing.T) {
	head := "time,op,key,size\n"
	for text, want := range map[string]string{
		"":                                    "it has no requests",
		"\n\n":                                "it has no requests",
		head:                                  "no request is in the part",
		head + "-1,read,a,1\n":                "line 2: time -1 is negative",
		head + "NaN,read,a,1\n":               `line 2: "NaN" is not a time`,
		head + "1e99,read,a,1":                "line 2: time 1e99 is more than a century",
		head + "9223372036854775807,read,a,1": "is more than a century",
		head + "1,read,a,1125899906842624\n":  "line 2: size 1125899906842624 exceeds 1GiB",
		head + "1,read,a,99999999999999999999999\n":             "exceeds 1GiB",
		head + "1,read,a,-5\n":                                  `line 2: "-5" is not a size in bytes`,
		head + "1,read,a,1\n0.5,read,a,1\n":                     "line 3: time 0.5 is before",
		head + "1,red,a,1\n":                                    `line 2: "red" is not an operation`,
		head + "1,read,a,1\n2,re":                               "line 3: it has 2 columns and",
		"<html>\n":                                              "line 1: it is of no known format",
		"{\"time\":1,\"op\":":                                   "line 1: it is of no known format",
		head + strings.Repeat("x", 2<<20):                       "line 2: it is longer than",
		"{\"time\":1,\"op\":\"read\",\"key\":1,\"size\":1}\n[":  "line 2: it is not a JSON object",
		"{\"time\":1,\"op\":\"read\",\"key\":1,\"size\":1}\n{}": "line 2: it has no time",
		"\x1f\x8b\x08\x00torn":                                  "gzip",
		"\x28\xb5\x2f\xfdtorn":                                  "line 1: ",
		`{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[1,2]}`:     "more than 5 tokens have",
		`{"timestamp":0,"input_length":-5,"output_length":1,"hash_ids":[1]}`:      "not a number of tokens",
		`{"timestamp":0,"input_length":5,"output_length":1e18,"hash_ids":[1]}`:    "not a number of tokens",
		`{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":{"a":"b"}}`: "hash_ids are not a list",
	} {
		_, _, _, err := prepare(t, strings.NewReader(text), Options{BytesPerToken: 1})
		require.ErrorContains(t, err, want, "%.60q", text)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 400)
	}
	_, _, _, err := prepare(t, bomb(t, "\x00", 4<<20), Options{})
	require.ErrorContains(t, err, "line 1: it is longer than")
	if !testing.Short() {
		_, _, _, err = prepare(t, bomb(t, head[:0]+"1,read,a,1\n", 300<<20), Options{})
		require.ErrorContains(t, err, "it expands to more than 300 times its size")
	}
}

func TestManyKeys(t *testing.T) {
	var text bytes.Buffer
	const n = 1_000_000
	for i := range n {
		fmt.Fprintf(&text, "%d,write,k%d,1\n", i, i)
	}
	part, _, sizes, err := prepare(t, &text, Options{})
	require.NoError(t, err)
	require.Len(t, sizes, n)
	require.EqualValues(t, n, part.Once)
}

func TestFormatNames(t *testing.T) {
	_, _, _, err := prepare(t, strings.NewReader("1,read,a,1\n"), Options{Format: "twiter"})
	require.ErrorContains(t, err, `did you mean "twitter"?`)
	_, _, _, err = prepare(t, strings.NewReader("1,read,a,1\n"), Options{Format: "twitter"})
	require.ErrorContains(t, err, "it is not of the format twitter: it has 4 columns")
	names, about := Formats()
	require.Len(t, about, len(names))
}

func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		"time,op,key,size\n1,read,a,1\n", "1,k,2,3,c,get,0\n2,k,2,3,c,set,0\n",
		`{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[1]}`,
		`{"time":1,"op":"rmw","key":"a","size":1,"class":"x"}`, "\x1f\x8b\x08\x00\x00", "\"a,b\",\"\"",
	} {
		f.Add([]byte(seed))
	}
	path := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := os.CreateTemp(path, "")
		require.NoError(t, err)
		defer os.Remove(file.Name())
		defer file.Close()
		part, err := Prepare(bytes.NewReader(text), Options{BytesPerToken: 3}, file)
		if err != nil {
			require.NotContains(t, strings.TrimSpace(err.Error()), "\n")
			return
		}
		require.Positive(t, part.Operations)
		require.GreaterOrEqual(t, part.Length, time.Duration(0))
		last, err := replay.NewFile(file, config.MaxValueSize)
		require.NoError(t, err)
		record, at := make([]replay.Record, 1), uint64(0)
		for i := range last.Records {
			_, err := last.Read(record, make([]byte, replay.Room), i)
			require.NoError(t, err)
			require.GreaterOrEqual(t, record[0].At, at)
			at = record[0].At
		}
	})
}

package result

import (
	"encoding/json"
	"fmt"
	"slices"
)

// migrateFrom1 brings a document of schema 1.x to 2.0, which changed the meaning of floors: the
// floor of ucxam was the ping-pong of its library, and op_time_ratio divided by the floor of a
// round trip. It renames the first and drops the second. It also makes the counters of transports
// those of each window.
func migrateFrom1(document map[string]any) {
	plugin, _ := document["plugin"].(map[string]any)
	name, _ := plugin["name"].(string)
	probe := "medium"
	if name == ofLibrary {
		probe = "library"
	}
	metrics := func(values any) {
		m, _ := values.(map[string]any)
		RenameFrom1(m, name)
	}
	metrics(document["summary"])
	repeats, _ := document["repeats"].([]any)
	launches := startedEachRepeat(document)
	for i, r := range append(slices.Clone(repeats), document["failed_repeat"]) {
		repeat, ok := r.(map[string]any)
		if !ok {
			continue
		}
		metrics(repeat["samples"])
		repeat["launch"] = 0
		if launches {
			repeat["launch"] = i
		}
		repeat["machine"] = map[string]any{}
		for old, side := range map[string]string{"floor_before": "before", "floor_after": "after"} {
			readings := map[string]any{}
			if floor, ok := repeat[old].(map[string]any); ok {
				readings[probe] = floor
				if floor["name"] == "cache-line bounce" {
					readings["bounce_ns"] = floor["round_trip_ns"]
				}
			}
			if note, has := repeat["floor_note"]; has {
				readings["note"] = note
			}
			repeat[side] = readings
			delete(repeat, old)
		}
		delete(repeat, "floor_note")
	}
	countWindows(repeats, launches)
	if config, ok := document["config"].(map[string]any); ok && !launches {
		config["launches"] = 1
	}
}

// ofLibrary is the transport whose floor in schema 1.x was the ping-pong of its library.
const ofLibrary = "ucxam"

// RenameFrom1 drops and renames the metrics of a transport that mean something else in schema 1.x.
func RenameFrom1[T any](metrics map[string]T, transport string) {
	delete(metrics, OpTimeRatio)
	if transport != ofLibrary {
		return
	}
	for from, to := range map[string]string{Floor: Library, FloorRatio: LibraryRatio} {
		if v, has := metrics[from]; has {
			metrics[to] = v
			delete(metrics, from)
		}
	}
}

// startedEachRepeat reports whether a document of schema 1.x is from a sweep, where every repeat
// was a run. The repeats of other commands were windows of one launch.
func startedEachRepeat(document map[string]any) bool {
	argv, _ := document["argv"].([]any)
	return len(argv) > 1 && (argv[1] == "sweep" || argv[1] == "ab")
}

// countWindows makes the counters of transports those of each window. In schema 1.x they counted
// from the start of the rank, with the warm-up. It drops those of the first window of a launch,
// which cannot be distinguished from the warm-up's.
func countWindows(repeats []any, launches bool) {
	for i := len(repeats) - 1; i >= 0; i-- {
		before := map[string]float64{}
		if i > 0 && !launches {
			eachCounter(repeats[i-1], func(key string, stat map[string]any) {
				before[key] = number(stat["value"])
			})
		}
		eachCounter(repeats[i], func(key string, stat map[string]any) {
			if earlier, has := before[key]; has {
				stat["value"] = max(0, number(stat["value"])-earlier)
			}
		})
		if len(before) == 0 {
			eachThread(repeats[i], func(_ string, thread map[string]any) {
				delete(thread, "transport")
			})
		}
	}
}

// eachCounter calls f for each counter of a repeat, with a key that tells it from the others.
func eachCounter(repeat any, f func(key string, stat map[string]any)) {
	eachThread(repeat, func(key string, thread map[string]any) {
		stats, _ := thread["transport"].([]any)
		for _, s := range stats {
			if stat, ok := s.(map[string]any); ok {
				name, _ := stat["name"].(string)
				f(key+name, stat)
			}
		}
	})
}

// eachThread calls f for the report of each client and daemon of a repeat.
func eachThread(repeat any, f func(key string, thread map[string]any)) {
	r, _ := repeat.(map[string]any)
	ranks, _ := r["ranks"].([]any)
	for i, rank := range ranks {
		report, _ := rank.(map[string]any)
		for _, role := range []string{"clients", "daemons"} {
			threads, _ := report[role].([]any)
			for k, t := range threads {
				if thread, ok := t.(map[string]any); ok {
					f(fmt.Sprintf("%d %s %d ", i, role, k), thread)
				}
			}
		}
	}
}

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case json.Number:
		f, _ := v.Float64()
		return f
	}
	return 0
}

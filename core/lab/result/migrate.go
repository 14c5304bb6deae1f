package result

import (
	"slices"
)

// migrateFrom1 brings a document of schema 1.x to 2.0, which changed the meaning of floors: the
// floor of ucxam was the ping-pong of its library, and op_time_ratio divided by the floor of a
// round trip. It renames the first and drops the second.
func migrateFrom1(document map[string]any) error {
	plugin, _ := document["plugin"].(map[string]any)
	renamed := map[string]string{}
	probe := "medium"
	if plugin["name"] == "ucxam" {
		renamed = map[string]string{Floor: Library, FloorRatio: LibraryRatio}
		probe = "library"
	}
	metrics := func(values any) {
		m, _ := values.(map[string]any)
		delete(m, OpTimeRatio)
		for from, to := range renamed {
			if v, has := m[from]; has {
				m[to] = v
				delete(m, from)
			}
		}
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
	if config, ok := document["config"].(map[string]any); ok && !launches {
		config["launches"] = 1
	}
	return nil
}

// startedEachRepeat reports whether a document of schema 1.x is from a sweep, where every repeat was
// a run. The repeats of other commands were windows of one launch.
func startedEachRepeat(document map[string]any) bool {
	argv, _ := document["argv"].([]any)
	return len(argv) > 1 && (argv[1] == "sweep" || argv[1] == "ab")
}

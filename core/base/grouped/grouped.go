package grouped

// By returns the values of each key, in the order in which the keys first come.
func By[K comparable, V any](values []V, key func(V) K) (groups [][]V) {
	at := map[K]int{}
	for _, v := range values {
		k := key(v)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

package result

import "iter"

// member is a value of an object or a list, as offsets into its text.
type member struct {
	name     []byte // as it is written, without the quotes; nil in a list
	from, to int
}

// members yields the values of the object or list at the beginning of text, which is valid JSON,
// without reading what is in them.
func members(text []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		object := text[0] == '{'
		for i := skipSpace(text, 1); text[i] != '}' && text[i] != ']'; {
			var m member
			if object {
				end := stringEnd(text, i)
				m.name = text[i+1 : end-1]
				i = skipSpace(text, skipSpace(text, end)+1) // after the colon
			}
			m.from, m.to = i, valueEnd(text, i)
			if !yield(m) {
				return
			}
			if i = skipSpace(text, m.to); text[i] == ',' {
				i = skipSpace(text, i+1)
			}
		}
	}
}

// valueEnd returns the index behind the value that begins at from.
func valueEnd(text []byte, from int) int {
	depth := 0
	for i := from; i < len(text); {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default: // a number, true, false or null
			for i < len(text) && !endsWord[text[i]] {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

var endsWord = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true,
	'\r': true}

// skipSpace returns the index of the first byte at or after from that is not a space.
func skipSpace(text []byte, from int) int {
	for from < len(text) && (text[from] == ' ' || text[from] == '\t' || text[from] == '\n' ||
		text[from] == '\r') {
		from++
	}
	return from
}

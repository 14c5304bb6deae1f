package erpc

import "golang.org/x/sys/unix"

// place is a session number that no session has.
func (w *worker) place() int {
	for i, p := range w.sessions {
		if p == nil {
			return i
		}
	}
	return len(w.sessions)
}

// clear gives up what sessions had whose loss has been told, so that peers which are
// started again and again take the places of those that they were. Packets of theirs in
// the wheel name the session, and are waited for. What remains says that the peer is down.
func (w *worker) clear() {
	waiting := w.told[:0]
	for _, p := range w.told {
		if p.inWheel > 0 {
			waiting = append(waiting, p)
			continue
		}
		w.unwatch(p)
		w.port.Release(p.remote)
		_ = unix.Munmap(p.memory) // it fails for what was not mapped only
		delete(w.byNonce, p.nonce)
		w.sessions[p.number] = nil
		*p = session{id: p.id, state: lost, errors: p.errors}
	}
	clear(w.told[len(waiting):])
	w.told = waiting
}

// unwatch has the heart leave a peer alone.
func (w *worker) unwatch(p *session) {
	if p.watch != nil {
		w.heart.unwatch(p.watch)
		p.watch = nil
	}
}

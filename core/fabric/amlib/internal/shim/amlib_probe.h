// What a library takes: a ping-pong of two loops in C over a worker's connection, with the payloads
// of the run and without the ring, the calls from Go into C and Go itself. A shim's probe.c includes
// this file after it has defined am_worker, am_peer, AM_NAME, which makes the names of its functions,
// send_probe and progress.

// trip does one round trip. It returns 0 if there is no pong before end.
static int trip(am_worker *w, am_peer *p, am_wait *wait, uint64_t token, uint32_t size, uint64_t end)
{
	w->probe.kind = 0;
	send_probe(w, p, AM_PING, token, size);
	for (uint32_t spins = 1;; spins++) {
		progress(w);
		if (w->probe.kind == AM_PONG && w->probe.token == token) {
			am_found(wait);
			return 1;
		}
		if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (p->state != PEER_UP || now > end)
				return 0;
			am_spun(wait, now);
		}
	}
}

// probe_lead does round trips with size bytes of payload for slice_ns and appends the mean of each batch, in
// nanoseconds, to trips. It returns -1 if the peer is lost.
int AM_NAME(probe_lead)(am_worker *w, uint32_t peer, uint32_t session, uint32_t size, uint64_t slice_ns, am_wait *wait, double *trips, uint32_t *filled, uint32_t max)
{
	am_peer *p = &w->peers[peer];
	uint64_t start = now_ns(), end = start + slice_ns;
	w->probe.on = 1;
	while (p->state == PEER_UP && start < end && *filled < max) {
		int done = 0;
		while (done < AM_BATCH && trip(w, p, wait, (uint64_t)session << 32 | ++w->probe.number, size, end))
			done++;
		uint64_t now = now_ns();
		if (done == AM_BATCH)
			trips[(*filled)++] = (double)(now - start) / AM_BATCH;
		start = now;
	}
	w->probe.on = 0;
	return p->state == PEER_UP ? 0 : -1;
}

// probe_end tells the follower that the session has ended.
void AM_NAME(probe_end)(am_worker *w, uint32_t peer, uint32_t session)
{
	send_probe(w, &w->peers[peer], AM_PING_END, (uint64_t)session << 32, 0);
	progress(w);
}

// probe_follow answers pings with size bytes of payload for slice_ns. It ignores sessions up to done, which are
// left over from a failed probe. It returns 1 when the leader has ended the current session,
// and -1 if the peer is lost.
int AM_NAME(probe_follow)(am_worker *w, uint32_t peer, uint32_t size, uint64_t slice_ns, am_wait *wait, uint32_t done, uint32_t *current)
{
	am_peer *p = &w->peers[peer];
	uint64_t end = now_ns() + slice_ns;
	int result = 0;
	w->probe.on = 1;
	for (uint32_t spins = 1; result == 0; spins++) {
		w->probe.kind = 0;
		progress(w);
		uint32_t session = w->probe.token >> 32;
		if (w->probe.kind == AM_PING && w->probe.peer == peer && session > done) {
			*current = session;
			am_found(wait);
			send_probe(w, p, AM_PONG, w->probe.token, size);
		} else if (w->probe.kind == AM_PING_END && session == *current && *current > done) {
			result = 1;
		} else if (p->state != PEER_UP) {
			result = -1;
		} else if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (now > end)
				break;
			am_spun(wait, now);
		}
	}
	w->probe.on = 0;
	return result;
}

package pipeline

// OnEnd registers f, which is called once when the exchange has ended: after its response was sent or has broken off,
// after a connection that has switched to another protocol was closed, and after a panic. A policy that reserves
// something for the duration of a request releases it with OnEnd.
func (e *Exchange) OnEnd(f func()) { e.onEnd = append(e.onEnd, f) }

// End calls the functions of OnEnd, the last one first. Creators of exchanges call it with defer, so that it is
// also called after a panic.
func (e *Exchange) End() {
	for len(e.onEnd) > 0 {
		last := len(e.onEnd) - 1
		f := e.onEnd[last]
		e.onEnd = e.onEnd[:last]
		f()
	}
}

// Hold records that the exchange, and the exchanges inside of it (Inner), are counted by owner. It returns false if they
// were recorded before. So a call of an MCP tool is not counted twice: for the MCP server, and for its route.
func (e *Exchange) Hold(owner any) bool {
	for _, other := range e.holders {
		if other == owner {
			return false
		}
	}
	e.holders = append(e.holders[:len(e.holders):len(e.holders)], owner)
	return true
}

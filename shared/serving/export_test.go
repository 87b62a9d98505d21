package serving

// Known is how many hosts are remembered.
func (r *Resolver) Known() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

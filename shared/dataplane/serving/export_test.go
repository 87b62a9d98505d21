package serving

// EntryCount returns the number of cached names of deployments.
func (r *Resolver) EntryCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

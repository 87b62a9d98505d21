package embedded

import "time"

// Watch has each commit's time told from now on, until it is on disk: those that nothing had to be written for,
// or that a condition refused, left out. told neither blocks nor fails.
func (b *Backend) Watch(told func(took time.Duration)) { b.told.Store(&told) }

// tell tells of a commit that has landed, which began at a time of the monotonic clock.
func (b *Backend) tell(began time.Time) {
	if told := b.told.Load(); told != nil {
		(*told)(time.Since(began))
	}
}

// Bytes is what the files take on disk, those included that are about to be removed.
func (b *Backend) Bytes() (uint64, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	return b.db.Metrics().DiskSpaceUsage(), nil
}

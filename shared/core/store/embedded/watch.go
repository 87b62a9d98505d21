package embedded

import "time"

// Watch calls notify for each later commit when the commit is on disk, with the duration of the commit. It does not
// call notify for repeated commits, for commits that a condition refused, for notes, or for the deletion of expired
// items. notify must not block or fail.
func (b *Backend) Watch(notify func(elapsed time.Duration)) { b.onCommit.Store(&notify) }

// reportDuration calls the function of Watch for a commit that is on disk and began at start.
func (b *Backend) reportDuration(start time.Time) {
	if notify := b.onCommit.Load(); notify != nil {
		(*notify)(time.Since(start))
	}
}

// Bytes returns the disk space of the files, including files that are about to be removed.
func (b *Backend) Bytes() (uint64, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	return b.db.Metrics().DiskSpaceUsage(), nil
}

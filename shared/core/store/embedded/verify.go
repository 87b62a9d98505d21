package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Verify reads all tables, as EachDamage does, and returns an error for the first damage.
func (b *Backend) Verify(ctx context.Context) (err error) {
	var first error
	err = b.EachDamage(ctx, func(damage error) bool {
		first = damage
		return false
	})
	return cmp.Or(err, first)
}

// EachDamage reads every block of every table, compares it with its checksum, and calls visit with an error for each
// damaged table, until visit returns false. If no table is damaged, it reads all entries in their order, and calls
// visit if that fails. Commits continue meanwhile. EachDamage returns an error if ctx ends, if the system refuses
// access to a file, if the list of tables cannot be read, or after Close.
func (b *Backend) EachDamage(ctx context.Context, visit func(error) bool) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	tables, err := b.tables()
	if err != nil {
		return err
	}
	intact := true
	for name := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := b.verifyTable(ctx, name)
		if err == nil || b.replaced(name, err) {
			continue
		}
		intact = false
		damage := accessError(fmt.Sprintf("the table %s cannot be read", b.tablePath(name)), oneLine(err))
		switch {
		case damage == nil:
			damage = fmt.Errorf("the table %s is damaged: %w: restore the last backup into another folder, and keep this one",
				b.tablePath(name), oneLine(err))
		case !errors.Is(err, syscall.EIO): // a sector that cannot be read is damage
			return damage
		}
		if !visit(damage) {
			return ctx.Err()
		}
	}
	if !intact {
		return ctx.Err()
	}
	if err := b.db.CheckLevels(nil); err != nil && ctx.Err() == nil {
		visit(readError(err))
	}
	return ctx.Err()
}

// tables returns the set of the tables' file names.
func (b *Backend) tables() (map[string]bool, error) {
	levels, err := b.db.SSTables()
	if err != nil {
		return nil, readError(err)
	}
	out := map[string]bool{}
	for _, level := range levels {
		for _, table := range level {
			out[fmt.Sprintf("%06d.sst", uint64(table.BackingSSTNum))] = true
		}
	}
	return out, nil
}

func (b *Backend) tablePath(name string) string {
	return b.o.FS.PathJoin(b.o.FS.PathJoin(b.o.Dir, filesFolder), name)
}

// replaced reports whether err means that a table was not found because other tables have replaced it meanwhile.
func (b *Backend) replaced(name string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	current, err := b.tables()
	return err == nil && !current[name]
}

// verifyTable compares each block of a table with its checksum. It bypasses the cache,
// because a block in memory may be undamaged although the block on disk is damaged.
func (b *Backend) verifyTable(ctx context.Context, name string) (err error) {
	file, err := b.o.FS.Open(b.tablePath(name))
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	policy := bloom.FilterPolicy(bloomBits)
	table, err := sstable.NewReader(ctx, readable,
		sstable.ReaderOptions{Filters: map[string]sstable.FilterPolicy{policy.Name(): policy}})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}

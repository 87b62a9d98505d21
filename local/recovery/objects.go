package main

import (
	"context"
	"fmt"
	"time"
)

// version is one of an object's, or the marker of a deletion.
type version struct {
	id     string
	marker bool
	on     time.Time
}

// undo says which markers have to go for an object to come back that was there between from and to: those
// of deletions since then. A key's content never changes, since it is named by its digest, so that whatever
// was put under it later is the same. versions are the newest first.
//
// S3 tells its times in whole seconds: a deletion in the very second is one since then, so that too much
// comes back rather than too little.
func undo(versions []version, from, to time.Time) (markers []string) {
	from, to = from.Truncate(time.Second), to.Add(time.Second).Truncate(time.Second)
	if len(versions) == 0 || !versions[0].marker {
		return nil // it is there
	}
	for _, v := range versions {
		switch {
		case v.marker && v.on.Before(from):
			return nil // it was gone by then
		case !v.marker && !v.on.After(to):
			return above(versions)
		}
	}
	return nil // it came later
}

// above are the markers on top of the newest version.
func above(versions []version) (markers []string) {
	for _, v := range versions {
		if !v.marker {
			break
		}
		markers = append(markers, v.id)
	}
	return markers
}

// contents are the versions that have a content, the newest first.
func contents(versions []version) (ids []string) {
	for _, v := range versions {
		if !v.marker {
			ids = append(ids, v.id)
		}
	}
	return ids
}

// found is what bringBack has found.
type found struct {
	// deleted counts the objects that came back, versions are what there is of those that are wanted, the newest first.
	deleted  int
	versions map[string][]string
}

// bringBack undoes the deletions from a bucket since a moment, and tells which keys of wanted are
// in it then. What was put since then stays.
func (w *work) bringBack(ctx context.Context, bucket string, from, to time.Time, wanted map[string]bool) (there map[string]bool, back found, err error) {
	there = map[string]bool{}
	back.versions = map[string][]string{}
	key, versions := "", []version(nil)
	flush := func() error {
		if key == "" {
			return nil
		}
		markers := undo(versions, from, to)
		for _, id := range markers {
			if err := w.versionsOf(bucket).unmark(ctx, key, id); err != nil {
				return fmt.Errorf("bring back the object %s: %w", key, err)
			}
		}
		if len(markers) > 0 {
			back.deleted++
		}
		if wanted[key] {
			back.versions[key] = contents(versions)
		}
		if wanted[key] && (len(markers) > 0 || len(versions) > 0 && !versions[0].marker) {
			there[key] = true
		}
		return nil
	}
	err = w.versionsOf(bucket).each(ctx, func(of string, v version) error {
		if of != key {
			if err := flush(); err != nil {
				return err
			}
			key, versions = of, versions[:0]
		}
		versions = append(versions, v)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return there, back, err
}

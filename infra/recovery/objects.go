package main

import (
	"context"
	"fmt"
	"time"
)

// version is a version of an object, or a delete marker.
type version struct {
	id         string
	marker     bool // whether it is a delete marker
	modifiedAt time.Time
}

// markersToRemove returns the delete markers whose removal restores an object that existed at some time between from
// and to. These are the markers above the newest version with content. That version can be later than to: an object's
// key is the digest of its content, so all versions have the same content. Only the root key that seals an artifact can
// differ (restoreArtifacts). versions are sorted, newest first.
//
// The times of S3 are whole seconds. A deletion within the same second as the moment counts as later, so that in doubt
// an object is restored.
func markersToRemove(versions []version, from, to time.Time) (markers []string) {
	from, to = from.Truncate(time.Second), to.Add(time.Second).Truncate(time.Second)
	if len(versions) == 0 || !versions[0].marker {
		return nil // the object exists
	}
	for _, v := range versions {
		switch {
		case v.marker && v.modifiedAt.Before(from):
			return nil // the object was already deleted then
		case !v.marker && !v.modifiedAt.After(to):
			return leadingMarkers(versions)
		}
	}
	return nil // the object was created later
}

// leadingMarkers returns the markers that are newer than the newest version with content.
func leadingMarkers(versions []version) (markers []string) {
	for _, v := range versions {
		if !v.marker {
			break
		}
		markers = append(markers, v.id)
	}
	return markers
}

// contentVersions returns the ids of the versions that have content, newest first.
func contentVersions(versions []version) (ids []string) {
	for _, v := range versions {
		if !v.marker {
			ids = append(ids, v.id)
		}
	}
	return ids
}

// restoredObjects is the result of restoreDeletedObjects.
type restoredObjects struct {
	// count is the number of objects whose deletion was undone. versions has the ids of the versions of each referenced
	// object, newest first, by the object's key.
	count    int
	versions map[string][]string
}

// restoreDeletedObjects undoes the deletions of objects that existed in a bucket at some time between from and to.
// present has the referenced keys that the bucket has afterwards. Objects that were added since the moment are kept.
func (w *work) restoreDeletedObjects(
	ctx context.Context, bucket string, from, to time.Time, referenced map[string]bool,
) (present map[string]bool, objects restoredObjects, err error) {
	present = map[string]bool{}
	objects.versions = map[string][]string{}
	key, versions := "", []version(nil)
	flush := func() error {
		if key == "" {
			return nil
		}
		markers := markersToRemove(versions, from, to)
		for _, id := range markers {
			if err := w.versionsOf(bucket).removeMarker(ctx, key, id); err != nil {
				return fmt.Errorf("bring back the object %s: %w", key, err)
			}
		}
		if len(markers) > 0 {
			objects.count++
		}
		if referenced[key] {
			objects.versions[key] = contentVersions(versions)
		}
		if referenced[key] && (len(markers) > 0 || len(versions) > 0 && !versions[0].marker) {
			present[key] = true
		}
		return nil
	}
	err = w.versionsOf(bucket).walk(ctx, func(objectKey string, v version) error {
		if objectKey != key {
			if err := flush(); err != nil {
				return err
			}
			key, versions = objectKey, versions[:0]
		}
		versions = append(versions, v)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return present, objects, err
}

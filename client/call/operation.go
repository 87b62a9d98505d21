package call

import (
	"errors"
	"fmt"
)

// OperationStatus reads the status of an operation that continues in the background. id is the ID of the operation in
// status requests. done is true if the operation has succeeded. The error says why the operation has failed, or why the
// document is not a valid status.
func OperationStatus(document []byte) (id string, done bool, err error) {
	var status struct{ ID, Status, Message string }
	if err := Decode(document, &status); err != nil {
		return "", false, fmt.Errorf("read how the operation goes: %w", err)
	}
	switch {
	case status.ID == "":
		return "", false, errors.New("the API does not say how to follow the operation")
	case status.Status == "success":
		return status.ID, true, nil
	case status.Status == "error":
		return status.ID, false, fmt.Errorf("the operation has failed: %s", status.Message)
	case status.Status == "in-progress":
		return status.ID, false, nil
	}
	return status.ID, false, fmt.Errorf("the API says of the operation %s %q, which is no status", status.ID,
		status.Status)
}

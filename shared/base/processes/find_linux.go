package processes

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// find reads /proc/PID/stat (proc(5)).
func find(pid int) (p Process, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return Process{}, false
	}
	fields := strings.Fields(string(content[end+1:]))
	const state, parent, start = 0, 1, 19
	if len(fields) <= start || fields[state] == "Z" {
		return Process{}, false
	}
	p = Process{PID: pid, Name: string(content[open+1 : end]), start: fields[start]}
	p.Parent, err = strconv.Atoi(fields[parent])
	return p, err == nil
}

func startTime(pid int) (start string, ok bool) {
	p, ok := find(pid)
	return p.start, ok
}

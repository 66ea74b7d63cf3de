package catalog

import "github.com/apache/arrow-go/v18/arrow"

// TaskDone is the id of all tasks that have succeeded before the caller learns of them.
const TaskDone = "task_00000000DEADBEEF"

// taskLog remembers the tasks that failed, up to a number of them.
type taskLog struct {
	failed map[string]string // messages
	order  []string
}

const maxFailedTasks = 1 << 14

// fail notes a failed task and names it. The caller holds the lock.
func (t *taskLog) fail(message string) string {
	if t.failed == nil {
		t.failed = map[string]string{}
	}
	if len(t.order) >= maxFailedTasks {
		delete(t.failed, t.order[0])
		t.order = t.order[1:]
	}
	id := "task_" + randomID(8)
	t.failed[id] = message
	t.order = append(t.order, id)
	return id
}

// Tasks tells the state of tasks, a row an id in the order asked for. All tasks
// have ended when their ids are handed out. Unknown ids are those of tasks that
// succeeded long ago.
func (c *Catalog) Tasks(ids []string) arrow.RecordBatch {
	n := len(ids)
	status, messages := make([]string, n), make([]*string, n)
	attempts := make([]uint8, n)
	c.mu.RLock()
	for i, id := range ids {
		attempts[i] = 1
		status[i] = "success"
		if m, ok := c.tasks.failed[id]; ok {
			status[i], messages[i] = "failed", &m
		}
	}
	c.mu.RUnlock()
	f := newFrame(n)
	f.strings("task_id", ids)
	f.nulls("kind", arrow.BinaryTypes.String)
	f.nulls("data", arrow.BinaryTypes.String)
	f.strings("exec_status", status)
	f.optionalStrings("msgs", messages)
	f.nulls("blob", arrow.BinaryTypes.Binary)
	f.nulls("lease_owner", arrow.BinaryTypes.String)
	f.nulls("lease_expiration", timestampType)
	f.uint8s("attempts", attempts, arrow.Metadata{})
	f.nulls("creation_time", timestampType)
	f.nulls("last_update_time", timestampType)
	return f.batch()
}

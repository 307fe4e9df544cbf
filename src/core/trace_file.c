/* trace_file.c -- trace-event files: a JSON array of begin and end events. Each
 * event is one write over the closing bracket, followed by a new bracket, so
 * the file is valid JSON whenever the process ends. A file that this process
 * wrote before is continued; the list of files lives as long as the process. */
#include "core/trace_file.h"
#include "core/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAIL "\n]\n"
enum { TAIL_BYTES = sizeof TAIL - 1, EVENT_MAX = 2048, NAME_MAX_BYTES = 200 };

struct td_trace_file {
    td_trace_file *next;
    int            refs; /* contexts that write to it; 0: fd is closed */
    int            fd;
    pid_t          pid;  /* the process that opened it; a forked child does not write */
    off_t          end;  /* offset of the closing bracket; 0: nothing written yet */
    bool           dead; /* a write failed; no more events */
    int            told; /* errno of the last warning */
    char           path[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static td_trace_file  *files;

/* Files are written under the lock, with cancellation of the thread disabled,
 * because a cancelled thread would leave it locked. Returns the argument for
 * leave_lock. */
static int take_lock(void) {
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&lock);
    return cancel;
}

static void leave_lock(int cancel) {
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel, NULL);
}

/* ---- writing ------------------------------------------------------------ */

static long thread_id(void) { return syscall(SYS_gettid); }

/* Appends s as JSON string content, truncated to NAME_MAX_BYTES. */
static size_t add_name(char *out, size_t n, const char *s) {
    size_t most = n + NAME_MAX_BYTES;
    while (*s && n < most) {
        int step = td__utf8_step(s);
        if (*s == '"' || *s == '\\') out[n++] = '\\';
        if (!step) out[n++] = '?'; /* JSON is UTF-8 */
        for (int i = 0; i < step; i++)
            out[n++] = (unsigned char)s[i] < 0x20 ? ' ' : s[i];
        s += step ? step : 1;
    }
    return n;
}

static size_t add_time(char *out, size_t n, int64_t ns) {
    return n + (size_t)sprintf(out + n, "\"ts\":%lld.%03d,\"pid\":%ld,\"tid\":%ld",
                               (long long)(ns / 1000), (int)(ns % 1000), (long)getpid(),
                               thread_id());
}

/* Writes all bytes at an offset; false with errno. */
static bool put(int fd, const char *s, size_t n, off_t at) {
    while (n) {
        ssize_t done = pwrite(fd, s, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        s += done, at += done, n -= (size_t)done;
    }
    return true;
}

/* After a failed write: restores the closing bracket. */
static void repair(td_trace_file *f) {
    if (!f->end) return;
    if (put(f->fd, TAIL, TAIL_BYTES, f->end))
        (void)!ftruncate(f->fd, f->end + TAIL_BYTES);
}

/* Writes one event; text has space for the closing bracket after n bytes. */
static bool append(td_trace_file *f, char *text, size_t n) {
    memcpy(text + n, TAIL, TAIL_BYTES);
    if (!put(f->fd, text, n + TAIL_BYTES, f->end)) {
        int why = errno;
        repair(f);
        errno = why;
        return false;
    }
    f->end += (off_t)n;
    return true;
}

static bool send_event(td_ctx *cx, td_trace_file *f, char *text, size_t n) {
    int why = 0;
    if (getpid() != f->pid) return true;
    int  cancel = take_lock();
    bool was_dead = f->dead;
    if (!was_dead && !append(f, text, n)) {
        why = errno;
        f->dead = true;
    }
    bool dead = f->dead;
    leave_lock(cancel);
    if (why)
        td__warn(cx, "trace file %s: writing failed, no more events are recorded: %s",
                 f->path, strerror(why));
    return !dead;
}

bool td__trace_begin(td_ctx *cx, td_trace_file *f, const td_open_span *s) {
    char   text[EVENT_MAX];
    size_t n = (size_t)sprintf(text, ",\n{\"ph\":\"B\",\"cat\":\"tandem\",\"name\":\"");
    n = add_name(text, n, s->name);
    n += (size_t)sprintf(text + n, "\",");
    n = add_time(text, n, s->start);
    text[n++] = '}';
    return send_event(cx, f, text, n);
}

bool td__trace_end(td_ctx *cx, td_trace_file *f, const td_open_span *s, int64_t now) {
    char   text[EVENT_MAX];
    size_t n = (size_t)sprintf(text, ",\n{\"ph\":\"E\",");
    n = add_time(text, n, now);
    for (int i = 0; i < s->n_args; i++) {
        n += (size_t)sprintf(text + n, i ? ",\"" : ",\"args\":{\"");
        n = add_name(text, n, s->key[i]);
        n += (size_t)sprintf(text + n, "\":%lld", (long long)s->arg[i]);
    }
    if (s->n_args) text[n++] = '}';
    text[n++] = '}';
    return send_event(cx, f, text, n);
}

/* ---- opening ------------------------------------------------------------ */

/* The first event names the process. */
static bool write_head(td_trace_file *f) {
    char   text[EVENT_MAX];
    size_t n = (size_t)sprintf(text, "[\n{\"ph\":\"M\",\"name\":\"process_name\",");
    n = add_time(text, n, 0);
    n += (size_t)sprintf(text + n, ",\"args\":{\"name\":\"tandem\"}}");
    f->end = 0;
    return append(f, text, n);
}

/* Is the file unchanged since this process last wrote it? */
static bool is_ours(const td_trace_file *f) {
    struct stat st;
    return f->end && f->pid == getpid() && !f->dead && !fstat(f->fd, &st) &&
           st.st_size == f->end + TAIL_BYTES;
}

/* Locks the file against other processes and writes its head unless it is
 * continued. File systems without locks are accepted. False with errno. */
static bool take(td_trace_file *f) {
    if (flock(f->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return false;
    if (is_ours(f)) return true;
    f->pid = getpid();
    f->dead = false;
    if (!ftruncate(f->fd, 0)) return write_head(f);
    return errno == EINVAL && write_head(f); /* not a regular file: it has no length */
}

/* False with errno. */
static bool start(td_trace_file *f) {
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->fd < 0) return false;
    if (take(f)) return true;
    int why = errno;
    close(f->fd);
    errno = why;
    return false;
}

/* A forked child does not reuse files that its parent has open. */
static bool is_entry(const td_trace_file *f, const char *path) {
    return !strcmp(f->path, path) && (f->refs == 0 || f->pid == getpid());
}

static td_trace_file *entry_of(const char *path) {
    td_trace_file *f = files;
    size_t         n = strlen(path) + 1;
    while (f && !is_entry(f, path)) f = f->next;
    if (f || !(f = td__zalloc(sizeof *f + n))) return f;
    memcpy(f->path, path, n);
    f->next = files;
    files = f;
    return f;
}

/* Replaces %p in the name by the process id. */
static void expand(const char *name, char *path, size_t cap) {
    const char *mark = strstr(name, "%p");
    int         n = mark ? (int)(mark - name) : (int)strlen(name);
    snprintf(path, cap, "%.*s", n, name);
    if (mark)
        snprintf(path + strlen(path), cap - strlen(path), "%ld%s", (long)getpid(),
                 mark + 2);
}

static void lock_files(void) { pthread_mutex_lock(&lock); }
static void unlock_files(void) { pthread_mutex_unlock(&lock); }
static void guard_forks(void) {
    (void)pthread_atfork(lock_files, unlock_files, unlock_files);
}

static const char *reason(int why) {
    if (why != EWOULDBLOCK) return strerror(why);
    return "another process writes it; %p in a name stands for the process";
}

td_trace_file *td__trace_open(td_ctx *cx, const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char                  path[4096];
    int                   why = 0;
    expand(name, path, sizeof path);
    pthread_once(&once, guard_forks);
    int            cancel = take_lock();
    td_trace_file *f = entry_of(path);
    bool           ok = f && (f->refs > 0 || start(f));
    if (!f) why = ENOMEM;
    else if (ok) {
        f->refs++;
        f->told = 0;
    } else if (errno != f->told) why = f->told = errno;
    leave_lock(cancel);
    if (why)
        td__warn(cx, "trace file %s: cannot be opened, no trace is written: %s", path,
                 reason(why));
    return ok ? f : NULL;
}

void td__trace_close(td_trace_file *f) {
    int cancel = take_lock();
    if (--f->refs == 0) close(f->fd);
    leave_lock(cancel);
}

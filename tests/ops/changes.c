/* Counts the changes that a tree of processes makes to files, and stops it before the n-th.
 *
 * Preloaded into every process of the tree. What is counted is what can leave a trace: a file that
 * is made, written to, cut, renamed, linked or removed, a directory that is made or removed. The
 * processes share a page, the file that WF_TEST_CHANGES names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ENGINE = 0, GROUP = 1, ALL = 2 };

/* Written by the server in Python: five 64-bit numbers. */
struct page {
    volatile long count;  /* changes until now */
    volatile long limit;  /* the one that is not made any more; 0: all are made */
    volatile long mode;   /* who ends before it */
    volatile long engine; /* process id, and id of its group */
    volatile long exempt; /* the server; 0: nothing is counted */
};

static struct page *page;

__attribute__((constructor)) static void open_page(void) {
    const char *path = getenv("WF_TEST_CHANGES");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        page = found;
}

/* A change is about to be made. */
static void change(void) {
    if (!page || !page->exempt || getpid() == page->exempt)
        return;
    long made = __sync_add_and_fetch(&page->count, 1);
    if (!page->limit || made < page->limit)
        return;
    if (page->mode == ALL) {
        kill((pid_t)page->engine, SIGKILL);
        kill(getpid(), SIGKILL);
    } else if (made == page->limit) {
        kill(page->mode == GROUP ? -(pid_t)page->engine : (pid_t)page->engine, SIGKILL);
    }
}

static int is_regular(int file) {
    struct stat found;
    return fstat(file, &found) == 0 && S_ISREG(found.st_mode);
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define HAS_MODE(flags) ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE)

/* `types` and `names` are those of the parameters. */
#define CHANGE(name, types, names) \
    int name types {               \
        REAL(name);                \
        change();                  \
        return real names;         \
    }
#define WRITE(name, types, names)      \
    ssize_t name types {               \
        REAL(name);                    \
        if (size && is_regular(file))  \
            change();                  \
        return real names;             \
    }
#define OPEN(name, types, names)            \
    int name types {                        \
        mode_t mode = 0;                    \
        if (HAS_MODE(flags)) {              \
            va_list rest;                   \
            va_start(rest, flags);          \
            mode = va_arg(rest, mode_t);    \
            va_end(rest);                   \
        }                                   \
        REAL(name);                         \
        if (flags & (O_CREAT | O_TRUNC))    \
            change();                       \
        return real names;                  \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRITE(write, (int file, const void *data, size_t size), (file, data, size))
WRITE(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
WRITE(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
CHANGE(rename, (const char *a, const char *b), (a, b))
CHANGE(renameat, (int f, const char *a, int g, const char *b), (f, a, g, b))
CHANGE(link, (const char *a, const char *b), (a, b))
CHANGE(linkat, (int f, const char *a, int g, const char *b, int h), (f, a, g, b, h))
CHANGE(symlink, (const char *a, const char *b), (a, b))
CHANGE(unlink, (const char *a), (a))
CHANGE(unlinkat, (int f, const char *a, int g), (f, a, g))
CHANGE(mkdir, (const char *a, mode_t m), (a, m))
CHANGE(mkdirat, (int f, const char *a, mode_t m), (f, a, m))
CHANGE(rmdir, (const char *a), (a))
CHANGE(ftruncate, (int f, off_t size), (f, size))

// Tests pthread_spin_lock of memory.c: a process dies with a lock that others wait for.

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int fb_process_died(void);

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// holder starts a process that has the lock.
static pid_t holder(pthread_spinlock_t *lock)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // the waiter may be killed
		pthread_spin_lock(lock);
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	assert(waitpid(pid, NULL, WUNTRACED) == pid);
	return pid;
}

int main(int argc, char **argv)
{
	assert(argc == 2);
	pthread_spinlock_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(lock != MAP_FAILED && pthread_spin_init(lock, PTHREAD_PROCESS_SHARED) == 0);
	assert(pthread_spin_lock(lock) == 0 && pthread_spin_unlock(lock) == 0);
	pid_t pid = holder(lock);
	if (strcmp(argv[1], "dead") == 0) {
		kill(pid, SIGKILL);
		assert(waitpid(pid, NULL, 0) == pid);
		fb_process_died();
	}
	// A waiter that is not told of a death waits on, and is killed by the alarm.
	alarm(strcmp(argv[1], "dead") == 0 ? 60 : 1);
	double began = now();
	pthread_spin_lock(lock);
	assert(pthread_spin_trylock(lock) != 0); // it is held, by this process
	assert(pthread_spin_unlock(lock) == 0 && pthread_spin_trylock(lock) == 0);
	kill(pid, SIGKILL);
	printf("%.3f\n", now() - began);
	return 0;
}

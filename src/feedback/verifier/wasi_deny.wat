;; `wasi_snapshot_preview1` that denies everything, so that a module which a C library linked against it becomes a
;; component without imports. The encoder drops what a module does not use.
;;
;; There are no arguments, no environment, no files, no sockets, no clock and no randomness. What is written to standard
;; output or standard error counts as written and is lost: a stray printf must not change a verdict.
;; Errors: 8 bad descriptor, 52 no such function, 76 not permitted.
(module
  (import "env" "memory" (memory 0))

  ;; Both sizes are zero.
  (func $none (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "args_sizes_get") (param i32 i32) (result i32) (call $none (local.get 0) (local.get 1)))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param i32 i32) (result i32) (call $none (local.get 0) (local.get 1)))

  (func (export "clock_res_get") (param i32 i32) (result i32) (i32.const 52))
  (func (export "clock_time_get") (param i32 i64 i32) (result i32) (i32.const 52))
  (func (export "random_get") (param i32 i32) (result i32) (i32.const 52))
  (func (export "poll_oneoff") (param i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param i32) unreachable)
  (func (export "proc_raise") (param i32) (result i32) (i32.const 52))

  (func (export "fd_write") (param $fd i32) (param $buffers i32) (param $count i32) (param $written i32) (result i32)
    (local $bytes i32)
    ;; Only 1 and 2 can be written to.
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $bytes (i32.add (local.get $bytes) (i32.load offset=4 (local.get $buffers))))
        (local.set $buffers (i32.add (local.get $buffers) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $bytes))
    (i32.const 0))

  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_close") (param i32) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))

  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 76))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 76))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 76))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 76))

  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 8)))

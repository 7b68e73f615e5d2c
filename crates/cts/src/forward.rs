//! The functions that devices of tests over another do not change.

/// The functions of a `DeviceBackend` that call those of `self.base`.
macro_rules! forward {
    () => {
        fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
            self.base.query_i64(category, key)
        }

        fn create_event(&self, affinity: QueueAffinity, flags: u32) -> Result<Event> {
            self.base.backend().create_event(affinity, flags)
        }

        fn create_executable_cache(&self, identifier: &str) -> Result<()> {
            self.base.backend().create_executable_cache(identifier)
        }

        fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
            self.base.infer_executable_format(data)
        }

        fn can_prepare_executable(&self, format: &str) -> bool {
            self.base.can_prepare_executable(format)
        }

        #[allow(unsafe_code, reason = "unsafe.md lists it")]
        unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
            // SAFETY: the caller vouches for the code, as this function requires; the code is forwarded
            // unchanged.
            unsafe { self.base.backend().prepare_executable(params) }
        }

        fn import_file(&self, affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
            self.base.backend().import_file(affinity, access, file)
        }

        fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

        fn flush(&self, affinity: QueueAffinity) -> Result<()> {
            self.base.flush(affinity)
        }

        fn profile_data(&self) -> ProfileData {
            self.base.profile_data()
        }

        fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
            self.base.begin_profiling(request)
        }

        fn flush_profiling(&self) -> Result<()> {
            self.base.flush_profiling()
        }

        fn sample_profiling_clock(&self) -> Result<()> {
            self.base.sample_profiling_clock()
        }

        fn end_profiling(&self) -> Result<()> {
            self.base.end_profiling()
        }

        fn memory_statistics(&self) -> Option<MemoryStatistics> {
            self.base.memory_statistics()
        }
    };
}

pub(crate) use forward;

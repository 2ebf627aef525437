internal import CLinux
internal import Glibc

/// A thread of the operating system that runs one closure and can be joined.
struct SystemThread: Sendable {
    private let handle: pthread_t

    /// Starts a thread that the process cannot do without, when the process starts.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        guard let thread = SystemThread(ifPossible: name, body) else {
            preconditionFailure("the system refused the thread '\(name)': \(SystemThread.cure)")
        }
        self = thread
    }

    /// Starts a thread; nil if the system refuses it, for example because the user has too many.
    ///
    /// Its name is cut to the 15 bytes that Linux shows.
    init?(ifPossible name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var created = pthread_t()
        guard pthread_create(&created, nil, SystemThread.main, start.toOpaque()) == 0 else {
            start.release()
            return nil
        }
        handle = created
    }

    /// The remedy for an operator if the system refuses a thread.
    static let cure = "raise `ulimit -u`, the container's limit of processes, or free memory"

    var isCurrent: Bool { pthread_equal(pthread_self(), handle) != 0 }

    func join() {
        precondition(!isCurrent, "a thread cannot join itself")
        pthread_join(handle, nil)
    }

    /// Frees the thread's resources when it ends; it can no longer be joined.
    func detach() { pthread_detach(handle) }

    private typealias Main =
        @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?

    private static let main: Main = { context in
        guard let context else { return nil }
        let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
        divan_name_thread(String(start.name.prefix(15)))
        start.body()
        return nil
    }

    private final class Start {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}

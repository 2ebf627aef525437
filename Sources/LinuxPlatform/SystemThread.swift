internal import CLinux
internal import Glibc

/// A thread of the operating system that runs one closure and can be joined.
struct SystemThread: Sendable {
    private let handle: pthread_t

    /// Starts a thread; its name is cut to the 15 bytes that Linux shows.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var created = pthread_t()
        let code = pthread_create(&created, nil, SystemThread.main, start.toOpaque())
        precondition(code == 0, "the system refused the thread '\(name)': error \(code)")
        handle = created
    }

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

//! One list of fields for a struct that stores keep as a row.
//!
//! `stored!` makes the struct, the names of its columns, the values to write and the
//! reading of a row from that one list. A store makes its SQL from the names, so a new
//! field is written in one place.

/// The value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Integer(i64),
    Text(&'a str),
    Nothing,
}

/// A column of a row: its name, and its place in the list of the struct's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub place: usize,
}

/// A row that a store has read, with all columns of a struct in their order.
pub trait Row {
    /// Returns the value of the column, or its fault.
    fn value(&self, column: Column) -> Result<Value<'_>, String>;

    /// Returns the readable part of a text that cannot be read.
    fn remains(&self, column: Column) -> Option<String>;
}

/// A column that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misread {
    pub column: &'static str,
    pub why: String,
}

impl std::fmt::Display for Misread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {}: {}", self.column, self.why)
    }
}

/// Describes a value that is not valid for its column.
pub fn no_value(value: Value<'_>) -> String {
    match value {
        Value::Integer(number) => format!("{number} is no value"),
        Value::Text(text) => format!("`{text}` is no value"),
        Value::Nothing => "it is missing".into(),
    }
}

/// The values of a row to write, filled field by field.
pub struct Values<'v, 'a> {
    into: std::slice::IterMut<'v, Value<'a>>,
}

impl<'v, 'a> Values<'v, 'a> {
    pub fn new(into: &'v mut [Value<'a>]) -> Self {
        Self { into: into.iter_mut() }
    }

    pub fn add(&mut self, value: Value<'a>) {
        if let Some(place) = self.into.next() {
            *place = value;
        }
    }
}

/// The columns of a row, read field by field.
pub struct Cells<'r> {
    row: &'r dyn Row,
    names: std::iter::Enumerate<std::slice::Iter<'r, &'static str>>,
    misread: Vec<Misread>,
}

impl<'r> Cells<'r> {
    pub fn new(row: &'r dyn Row, names: &'r [&'static str]) -> Self {
        Self { row, names: names.iter().enumerate(), misread: Vec::new() }
    }

    /// Takes the next column. A column that cannot be read is noted, and gets a
    /// substitute.
    pub fn take<C: Cell>(&mut self) -> C {
        let Some((place, name)) = self.names.next() else { return C::unreadable(None) };
        let column = Column { name, place };
        let read = self.row.value(column);
        let why = match read.map(|value| C::read(value).ok_or(value)) {
            Ok(Ok(read)) => return read,
            Ok(Err(value)) => no_value(value),
            Err(why) => why,
        };
        self.misread.push(Misread { column: column.name, why });
        C::unreadable(self.row.remains(column))
    }

    /// Returns the columns that could not be read.
    pub fn misread(self) -> Vec<Misread> {
        self.misread
    }
}

/// A field of a stored struct: one or more columns.
pub trait Stored: Sized {
    /// Adds one value for each column.
    fn put<'a>(&'a self, values: &mut Values<'_, 'a>);
    /// Takes as many columns.
    fn take(cells: &mut Cells<'_>) -> Self;
}

/// A field of one column.
pub trait Cell: Sized {
    fn value(&self) -> Value<'_>;
    /// `None` if the value is not valid for this type.
    fn read(value: Value<'_>) -> Option<Self>;
    /// Returns the substitute for an unreadable value, of which this text may remain.
    fn unreadable(remains: Option<String>) -> Self;
}

impl<C: Cell> Stored for C {
    fn put<'a>(&'a self, values: &mut Values<'_, 'a>) {
        values.add(self.value());
    }

    fn take(cells: &mut Cells<'_>) -> Self {
        cells.take()
    }
}

impl<C: Cell> Cell for Option<C> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Nothing, C::value)
    }

    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Nothing => Some(None),
            value => C::read(value).map(Some),
        }
    }

    fn unreadable(remains: Option<String>) -> Self {
        remains.map(|text| C::unreadable(Some(text)))
    }
}

impl Cell for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }

    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }

    fn unreadable(remains: Option<String>) -> Self {
        remains.unwrap_or_default()
    }
}

/// Makes cells of numbers: each as `i64`, back from it, and the substitute for one that
/// cannot be read.
macro_rules! numbers {
    ($($type:ty: $to:expr, $from:expr, $unreadable:expr;)*) => {$(
        impl $crate::stored::Cell for $type {
            fn value(&self) -> $crate::stored::Value<'_> {
                let to: fn(&$type) -> i64 = $to;
                $crate::stored::Value::Integer(to(self))
            }

            fn read(value: $crate::stored::Value<'_>) -> Option<Self> {
                let from: fn(i64) -> Option<$type> = $from;
                match value {
                    $crate::stored::Value::Integer(number) => from(number),
                    _ => None,
                }
            }

            fn unreadable(_: Option<String>) -> Self {
                $unreadable
            }
        }
    )*};
}
pub(crate) use numbers;

numbers! {
    u8: |n| (*n).into(), |n| n.try_into().ok(), 0;
    bool: |b| (*b).into(), |n| (n >> 1 == 0).then_some(n == 1), false;
}

/// Makes a struct and its row: `field: type => "column"`, in the order of the columns.
macro_rules! stored {
    (
        $(#[$outer:meta])*
        pub struct $name:ident {
            $($(#[$inner:meta])* $field:ident: $type:ty => $($column:literal),+,)*
        }
    ) => {
        $(#[$outer])*
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)*
        }

        impl $name {
            /// The columns of a row, in order.
            pub const COLUMNS: &'static [&'static str] = &[$($($column),+),*];

            /// The values of a row, in the order of the columns.
            pub fn values(&self) -> [Value<'_>; Self::COLUMNS.len()] {
                let mut list = [Value::Nothing; Self::COLUMNS.len()];
                let mut values = Values::new(&mut list);
                $(self.$field.put(&mut values);)*
                list
            }

            /// Reads a row as far as it can be read, and lists the columns that cannot.
            fn read_columns(row: &dyn $crate::stored::Row) -> (Self, Vec<$crate::stored::Misread>) {
                let mut cells = Cells::new(row, Self::COLUMNS);
                let read = Self { $($field: Stored::take(&mut cells),)* };
                (read, cells.misread())
            }
        }
    };
}
pub(crate) use stored;
